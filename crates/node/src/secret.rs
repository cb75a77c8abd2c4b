//! Arguments that are secrets: the slow log and MONITOR leave them out.

use resp::Args;

/// Settings whose values are secrets.
const SETTINGS: &[&str] = &[
    "requirepass",
    "masterauth",
    "primaryauth",
    "masteruser",
    "primaryuser",
    "tls-key-file-pass",
    "tls-client-key-file-pass",
];

/// True if argument `i` of a command is a secret.
pub fn is_secret(args: Args<'_>, i: usize) -> bool {
    let is = |i: usize, word: &str| args.get(i).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    if i == 0 {
        false
    } else if is(0, "auth") {
        true
    } else if is(0, "hello") {
        // HELLO 3 AUTH user password: both are hidden, as in Redis.
        i >= 3 && (is(i - 1, "auth") || is(i - 2, "auth"))
    } else if is(0, "acl") && ["setuser", "deluser", "getuser"].iter().any(|name| is(1, name)) {
        i >= 2
    } else if is(0, "config") && is(1, "set") {
        i >= 3 && i % 2 == 1 && SETTINGS.iter().any(|name| is(i - 1, name))
    } else {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::OwnedArgs;

    fn secrets(line: &str) -> Vec<usize> {
        let owned: OwnedArgs = line.split(' ').collect();
        (0..owned.args().len()).filter(|&i| is_secret(owned.args(), i)).collect()
    }

    #[test]
    fn passwords_are_secret() {
        assert_eq!(secrets("auth x"), [1]);
        assert_eq!(secrets("AUTH user x"), [1, 2]);
        assert_eq!(secrets("hello 3 auth user x setname y"), [3, 4]);
        assert_eq!(secrets("hello 3 setname y"), [0; 0]);
        assert_eq!(secrets("config set port 1 requirepass x"), [5]);
        assert_eq!(secrets("config get requirepass"), [0; 0]);
        assert_eq!(secrets("set auth x"), [0; 0]);
    }
}
