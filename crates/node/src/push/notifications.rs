//! The messages in which an event of a key is published (`notify-keyspace-events`).

use command::{Event, class};

/// Calls `publish` with the channel and the text of each message of an event that `classes` ask for.
pub(crate) fn each_message(event: &Event, classes: u32, mut publish: impl FnMut(&[u8], &[u8])) {
    let Event { name, db, key, fields, .. } = event;
    let name = name.as_bytes();
    let mut tell = |class: u32, kind: &str, channel: &[&[u8]], message: &[&[u8]]| {
        if classes & class != 0 {
            let mut full = format!("__{kind}@{db}__:").into_bytes();
            channel.iter().for_each(|part| full.extend_from_slice(part));
            publish(&full, &message.concat());
        }
    };
    tell(class::KEYSPACE, "keyspace", &[key], &[name]);
    tell(class::KEYEVENT, "keyevent", &[name], &[key]);
    if fields.is_empty() {
        return;
    }
    tell(class::SUBKEYSPACE, "subkeyspace", &[key], &[name, b"|", fields]);
    let len = key.len().to_string();
    tell(class::SUBKEYEVENT, "subkeyevent", &[name], &[len.as_bytes(), b":", key, b"|", fields]);
    // If the key has a line break, no reader could tell where the field begins.
    if !key.contains(&b'\n') {
        event.each_field().for_each(|field| {
            tell(class::SUBKEYSPACEITEM, "subkeyspaceitem", &[key, b"\n", field], &[name]);
        });
    }
    tell(class::SUBKEYSPACEEVENT, "subkeyspaceevent", &[name, b"|", key], &[fields]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(key: &[u8], fields: &[u8], classes: u32) -> Vec<String> {
        let (key, fields) = (key.into(), fields.into());
        let event = Event { class: class::HASH, name: "hset".into(), db: 3, key, fields };
        let mut messages = Vec::new();
        each_message(&event, classes, |channel, message| {
            messages.push(format!("{} {}", channel.escape_ascii(), message.escape_ascii()));
        });
        messages
    }

    #[test]
    fn channels_are_those_of_redis() {
        assert_eq!(messages(b"h", b"1:f,2:gg", class::KEYSPACE), ["__keyspace@3__:h hset"]);
        let naming = class::NAMING_FIELDS | class::KEYEVENT;
        assert_eq!(
            messages(b"h", b"1:f,2:gg", naming),
            [
                "__keyevent@3__:hset h",
                "__subkeyspace@3__:h hset|1:f,2:gg",
                "__subkeyevent@3__:hset 1:h|1:f,2:gg",
                "__subkeyspaceitem@3__:h\\nf hset",
                "__subkeyspaceitem@3__:h\\ngg hset",
                "__subkeyspaceevent@3__:hset|h 1:f,2:gg",
            ]
        );
        assert_eq!(messages(b"h", b"", naming), ["__keyevent@3__:hset h"]);
        assert_eq!(messages(b"a\nb", b"1:f", class::SUBKEYSPACEITEM), [""; 0]);
    }
}
