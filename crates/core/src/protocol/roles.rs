//! What a packet is, in the words of its protocol.

/// A type for the roles of a protocol's packets, numbered from `$from` on, each with the name of what such a packet
/// carries; behind a slash, of what the answer to it carries.
macro_rules! roles {
    ($(#[doc = $about:literal])+ from $from:expr; $($ROLE:ident = $name:literal $(/ $answer:literal)?,)+) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Role(pub u8);

        impl Role {
            roles!(@number $from; $($ROLE)+);

            /// The number behind the last one.
            pub const END: u8 = $from + [$($name),+].len() as u8;

            /// Everything that packets of these roles carry.
            pub fn messages() -> impl Iterator<Item = &'static str> {
                let named = [$(($name, roles!(@answer $name $(, $answer)?)),)+];
                named.into_iter().flat_map(|(name, answer)| [Some(name), answer].into_iter().flatten())
            }

            /// The role of a packet.
            #[inline(always)]
            pub fn of(packet: &$crate::tlp::Packet) -> Role {
                Role(packet.token.role)
            }

            /// The token of a packet in this role.
            #[inline(always)]
            pub const fn token(self, context: u32) -> $crate::tlp::Token {
                $crate::tlp::Token { role: self.0, context }
            }

            /// What such a packet carries, as a packet of this kind; none if the role is not one of these.
            #[allow(unused_variables, reason = "without answers, the kind says nothing")]
            pub fn name(self, kind: $crate::tlp::Kind) -> Option<&'static str> {
                match self {
                    $(Role::$ROLE => Some(roles!(@name kind, $name $(, $answer)?)),)+
                    _ => None,
                }
            }
        }
    };
    (@number $next:expr; $ROLE:ident $($rest:ident)*) => {
        #[allow(missing_docs, reason = "the names say it")]
        pub const $ROLE: Role = Role($next);
        roles!(@number $next + 1; $($rest)*);
    };
    (@number $next:expr;) => {};
    (@answer $name:literal) => { None };
    (@answer $name:literal, $answer:literal) => { Some($answer) };
    (@name $kind:ident, $name:literal) => { $name };
    (@name $kind:ident, $name:literal, $answer:literal) => {
        if $kind == $crate::tlp::Kind::Completion { $answer } else { $name }
    };
}
pub(super) use roles;
