//! What a cluster agrees on as a whole, with one version: its users, and its libraries of functions. To the metadata
//! these are the bytes of libraries ([`::membership::meta::Libraries`]).
//!
//! ```text
//! payload := libraries                                                           nobody has changed users
//!          | "HFAG" version u8 = 1  length u32  users  libraries                 from level::PRINCIPALS on
//! users   := requirepass u8 (0: none, 1: its SHA-256 follows)  [32 bytes]  the users as `acl` writes them
//! ```
//!
//! Libraries are as FUNCTION DUMP gives them, or nothing. They never begin as the other form does. A node that does not
//! know the version gets no lease, and says why.

use crate::node::Node;
use crate::users;

const MAGIC: &[u8; 4] = b"HFAG";
const VERSION: u8 = 1;

/// The bytes of users and libraries together.
pub fn join(users: &[u8], libraries: &[u8]) -> Vec<u8> {
    if users.is_empty() {
        return libraries.to_vec();
    }
    let mut out = MAGIC.to_vec();
    out.push(VERSION);
    // The metadata keep less than 4 GiB.
    out.extend((users.len() as u32).to_le_bytes());
    out.extend_from_slice(users);
    out.extend_from_slice(libraries);
    out
}

/// The bytes of users and of libraries in what [`join`] has written.
///
/// # Errors
///
/// Another build has written them, or they are cut short.
pub fn split(payload: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let Some(rest) = payload.strip_prefix(MAGIC) else { return Ok((&[], payload)) };
    let [VERSION, rest @ ..] = rest else {
        return Err("another version of Holdfast has written the cluster's users".to_owned());
    };
    let parts = rest.split_first_chunk().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        rest.split_at_checked(length).filter(|(users, _)| !users.is_empty())
    });
    parts.ok_or_else(|| "the cluster's users are cut short".to_owned())
}

/// Takes what the cluster has agreed on in place of all users and libraries that there are.
///
/// # Errors
///
/// What cannot be read: nothing has changed then, or the users alone.
pub fn take_agreed(node: &Node, version: u64, payload: &[u8]) -> Result<(), String> {
    let (of_users, libraries) = split(payload)?;
    users::take(node, of_users)?;
    node.scripts.take_libraries(version, libraries, of_users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::libraries::Libraries;

    /// Changing these bytes needs a new version and a new level: nodes of the former build are in the cluster
    /// meanwhile.
    #[test]
    fn golden_bytes() {
        assert_eq!(join(b"", b"lib"), b"lib", "as before there were users");
        let both = join(b"us", b"lib");
        assert_eq!(both, b"HFAG\x01\x02\0\0\0uslib");
        assert_eq!(split(&both), Ok((&b"us"[..], &b"lib"[..])));
        assert_eq!(split(b"lib"), Ok((&b""[..], &b"lib"[..])));
        assert_eq!(split(b""), Ok((&b""[..], &b""[..])));
        for wrong in [&b"HFAG"[..], b"HFAG\x02\x02\0\0\0us", b"HFAG\x01\x03\0\0\0us", b"HFAG\x01\0\0\0\0lib"] {
            assert!(split(wrong).is_err(), "{wrong:?}");
        }
        let dumped = Libraries::default().dump();
        assert!(!dumped.starts_with(b"H"), "libraries are told apart from users");
    }
}
