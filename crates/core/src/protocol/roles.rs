//! Roles of packets: each protocol numbers the kinds of packet that it sends and names them in the words of its
//! specification.

/// Defines the type `Role` of a protocol: the roles of its packets, numbered from `$from` on. Each role has the name of
/// the data that its packets carry and, behind a slash, of the data that a completion returns.
macro_rules! roles {
    ($(#[doc = $about:literal])+ from $from:expr; $($ROLE:ident = $name:literal $(/ $answer:literal)?,)+) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Role(pub u8);

        impl Role {
            roles!(@number $from; $($ROLE = $name $(/ $answer)?,)+);

            /// First role number that this protocol does not use: its roles are numbered below it.
            pub const END: u8 = $from + [$($name),+].len() as u8;

            /// Returns the names of all data that packets of this protocol carry: for each role, that of its requests
            /// or writes, then that of its completions.
            pub fn messages() -> impl Iterator<Item = &'static str> {
                let named = [$(($name, roles!(@answer $name $(, $answer)?)),)+];
                named.into_iter().flat_map(|(name, answer)| [Some(name), answer].into_iter().flatten())
            }

            /// Returns the role that the token of a packet holds.
            #[inline(always)]
            pub fn of(packet: &$crate::tlp::Packet) -> Role {
                Role(packet.token.role)
            }

            /// Returns a packet token of this role. `context` distinguishes packets of the role, for example by queue
            /// or command slot.
            #[inline(always)]
            pub const fn token(self, context: u32) -> $crate::tlp::Token {
                $crate::tlp::Token { role: self.0, context }
            }

            /// Returns the name of the data that a packet of this role and kind (write, read request or completion)
            /// carries; none if the role is not one of this protocol.
            #[allow(unused_variables, reason = "without answers, the kind says nothing")]
            pub fn name(self, kind: $crate::tlp::Kind) -> Option<&'static str> {
                match self {
                    $(Role::$ROLE => Some(roles!(@name kind, $name $(, $answer)?)),)+
                    _ => None,
                }
            }
        }
    };
    (@number $next:expr; $ROLE:ident = $name:literal $(/ $answer:literal)?, $($rest:tt)*) => {
        #[doc = concat!("Role of packets named `", $name, "`" $(, ", whose completions are named `", $answer, "`")?, ".")]
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
