//! Faults of values in words: Redis's, where its log has some for them.

use super::kind;
use crate::Corrupt;

/// The fault of a value, in words. `body` is its type byte and the bytes behind it.
pub fn describe(body: &[u8], Corrupt(reason): Corrupt) -> String {
    let kind = body.first().copied();
    let form = match kind {
        Some(kind::LIST_ZIPLIST) => "List ziplist",
        Some(kind::LIST_QUICKLIST) => "Quicklist ziplist",
        Some(kind::LIST_QUICKLIST_2) => "Quicklist listpack",
        Some(kind::SET_INTSET) => "Set intset",
        Some(kind::SET_LISTPACK) => "Set listpack",
        Some(kind::ZSET_ZIPLIST) => "Zset ziplist",
        Some(kind::ZSET_LISTPACK) => "Zset listpack",
        Some(kind::HASH_ZIPMAP) if reason.starts_with("duplicate") => "Hash zipmap",
        Some(kind::HASH_ZIPMAP) => "Zipmap",
        Some(kind::HASH_ZIPLIST) => "Hash ziplist",
        Some(kind::HASH_LISTPACK | kind::HASH_LISTPACK_EX | kind::HASH_LISTPACK_EX_RC) => "Hash listpack",
        Some(
            kind::STREAM_LISTPACKS
            | kind::STREAM_LISTPACKS_2
            | kind::STREAM_LISTPACKS_3
            | kind::STREAM_LISTPACKS_4
            | kind::STREAM_LISTPACKS_5,
        ) => "Stream listpack",
        _ => return reason.to_owned(),
    };
    let names_duplicates = !matches!(kind, Some(kind::LIST_ZIPLIST | kind::ZSET_ZIPLIST | kind::HASH_ZIPLIST));
    match reason.starts_with("duplicate") && names_duplicates {
        true => format!("{form} with dup elements: {reason}"),
        false => format!("{form} integrity check failed: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_the_words_of_redis() {
        for (kind, reason, words) in [
            (kind::HASH_ZIPLIST, "ziplist entry", "Hash ziplist integrity check failed: ziplist entry"),
            (kind::HASH_ZIPMAP, "zipmap", "Zipmap integrity check failed: zipmap"),
            (kind::HASH_ZIPMAP, "duplicate field", "Hash zipmap with dup elements: duplicate field"),
            (kind::HASH_LISTPACK, "duplicate field", "Hash listpack with dup elements: duplicate field"),
            (kind::HASH_ZIPLIST, "duplicate field", "Hash ziplist integrity check failed: duplicate field"),
            (kind::SET, "duplicate member", "duplicate member"),
        ] {
            assert_eq!(describe(&[kind], Corrupt(reason)), words);
        }
    }
}
