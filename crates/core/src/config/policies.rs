//! List of all policies of the flash translation layer. Each is one file in `media/translation/policy/` and one line
//! here.

/// Calls `$with!` with the list of policies: for each, the type that implements it, its name in drive files, and its
/// file.
macro_rules! translation_policies {
    ($with:ident) => {
        $with! {
            Greedy = "greedy" in greedy,
            Fifo = "fifo" in fifo,
            DChoices = "d-choices" in d_choices,
            CostBenefit = "cost-benefit" in cost_benefit,
            HotCold = "hot-cold" in hot_cold,
            WearAware = "wear-aware" in wear_aware,
        }
    };
}
pub(crate) use translation_policies;

macro_rules! policy_names {
    ($($policy:ident = $name:literal in $file:ident,)+) => {
        /// Policy by which a flash translation layer places writes and collects garbage.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum TranslationPolicyName {
            $(
                #[doc = concat!("The policy `", $name, "`.")]
                $policy,
            )+
        }

        impl TranslationPolicyName {
            /// All policies of the flash translation layer, in the order of the list.
            pub const ALL: &[TranslationPolicyName] = &[$(TranslationPolicyName::$policy),+];
        }

        crate::config::section::names! { TranslationPolicyName { $($name => $policy),+ } }
    };
}
translation_policies!(policy_names);
