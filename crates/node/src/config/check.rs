//! Further checks of texts, named by the rows.

use super::kind::Refusal;

/// Longest host name with its terminating zero in Redis.
const HOST_NAME_MAX: usize = 256;

/// `proc-title-template`: known variables in braces, and not empty.
pub(super) fn title_template(text: &[u8]) -> Result<(), Refusal> {
    const VARIABLES: [&[u8]; 7] =
        [b"title", b"listen-addr", b"server-mode", b"port", b"tls-port", b"unixsocket", b"config-file"];
    let mut rest = text;
    let mut good = !text.is_empty();
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        let inside = rest.get(open + 1..).unwrap_or_default();
        let Some(close) = inside.iter().position(|byte| *byte == b'}') else {
            good = false;
            break;
        };
        let (name, behind) = inside.split_at(close);
        good &= VARIABLES.contains(&name);
        rest = behind;
    }
    ensure(good, "template format is invalid or contains unknown variables")
}

/// `dbfilename`.
pub(super) fn snapshot_file(text: &[u8]) -> Result<(), Refusal> {
    ensure(is_base_name(text), "dbfilename can't be a path, just a filename")
}

/// `appendfilename`.
pub(super) fn append_file(text: &[u8]) -> Result<(), Refusal> {
    ensure(!text.is_empty(), "appendfilename can't be empty")?;
    ensure(is_base_name(text), "appendfilename can't be a path, just a filename")
}

/// `appenddirname`.
pub(super) fn append_dir(text: &[u8]) -> Result<(), Refusal> {
    ensure(!text.is_empty(), "appenddirname can't be empty")?;
    ensure(is_base_name(text), "appenddirname can't be a path, just a dirname")
}

/// `log-pace`.
pub(super) fn log_pace(text: &[u8]) -> Result<(), Refusal> {
    let parsed = String::from_utf8_lossy(text).parse::<redolog::Pace>();
    ensure(text.is_empty() || parsed.is_ok(), "microseconds of a sync and megabytes a second, such as \"333us 125mb\"")
}

/// `checkpoint-log-max`: the bytes that are written between two looks at it must be few beside it.
pub(super) fn log_max(text: &[u8]) -> Result<(), Refusal> {
    let bytes = String::from_utf8_lossy(text).parse::<u64>().unwrap_or(u64::MAX);
    ensure(bytes == 0 || bytes >= 2 << 20, "argument must be 0, or at least 2mb")
}

/// `shutdown-on-sigint` and `shutdown-on-sigterm`, as they are shown.
pub(super) fn signal(text: &[u8]) -> Result<(), Refusal> {
    let has = |wanted: &[u8]| text.split(|byte| *byte == b' ').any(|word| word == wanted);
    ensure(!(has(b"save") && has(b"nosave")), "shutdown options SAVE and NOSAVE can't be used simultaneously")
}

/// `cluster-seeds`.
pub(super) fn seeds(text: &[u8]) -> Result<(), Refusal> {
    ensure(super::seeds(text).is_some(), "argument must be host:port[@cluster-port], separated by commas")
}

/// `cluster-announce-hostname`.
pub(super) fn host_name(text: &[u8]) -> Result<(), Refusal> {
    ensure(text.len() < HOST_NAME_MAX, "Hostnames must be less than 256 characters")?;
    let plain = text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    ensure(plain, "Hostnames may only contain alphanumeric characters, hyphens or dots")
}

/// `cluster-announce-human-nodename`.
pub(super) fn node_name(text: &[u8]) -> Result<(), Refusal> {
    let plain = !text.iter().any(|byte| b"!#$%&()*+:;<>?@[]^{|}~".contains(byte) || *byte == 0);
    ensure(plain, "Announced human node name contained invalid character")
}

fn is_base_name(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, b'/' | b'\\'))
}

fn ensure(good: bool, refusal: &'static str) -> Result<(), Refusal> {
    if good { Ok(()) } else { Err(refusal.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        for good in ["{title} {listen-addr} {server-mode}", "--my--title--template", "a } b", "{config-file}"] {
            assert!(title_template(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["", "{unknown}", "{title", "{}"] {
            assert!(title_template(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn names() {
        assert!(snapshot_file(b"dump.rdb").is_ok() && snapshot_file(b"a/b").is_err());
        assert!(append_file(b"").is_err() && append_dir(b"a/b").is_err() && append_dir(b"d").is_ok());
        assert!(host_name(b"a-b.c").is_ok() && host_name(b"a_b").is_err() && host_name(&[b'a'; 256]).is_err());
        assert!(node_name(b"node 1").is_ok() && node_name(b"a!b").is_err());
        assert!(signal(b"nosave now").is_ok() && signal(b"save nosave").is_err());
    }
}
