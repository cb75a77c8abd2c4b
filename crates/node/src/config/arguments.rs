//! The command line of the server: `[FILE] [--NAME VALUE ...] [-]`, with Redis's rules.
//!
//! Options become lines of configuration, read after the file: `--port 6380` is `port "6380"`. The odd rules are
//! Redis's own, and scripts rely on them. A value may begin with `--` if it is the first after a name, `--save` needs
//! none, and a name and its value may share one argument (`"--maxmemory 1gb"`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use resp::split_args;

use super::line::quote;

/// The requests of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// True if `-` asks to read configuration from standard input as well.
    pub stdin: bool,
    /// The options as lines of configuration.
    pub options: Vec<u8>,
}

impl Arguments {
    /// Reads the arguments that follow `holdfast server`.
    pub fn parse(args: &[Vec<u8>]) -> Arguments {
        let mut found = Arguments::default();
        let mut rest = args;
        if let [first, tail @ ..] = args
            && !first.starts_with(b"-")
        {
            found.file = Some(PathBuf::from(OsStr::from_bytes(first)));
            rest = tail;
        }
        // A name takes at least one argument, so right after one even `--x` is a value.
        let mut awaits_value = false;
        for (index, arg) in rest.iter().enumerate() {
            let next = rest.get(index + 1);
            let at_either_end = next.is_none() || index == 0 && found.file.is_none();
            if arg == b"-" && at_either_end {
                found.stdin = true;
            } else if let Some(name) = arg.strip_prefix(b"--").filter(|_| !awaits_value) {
                awaits_value = found.name(name, next);
            } else {
                found.options.extend(quote(arg));
                found.options.push(b' ');
                awaits_value = false;
            }
        }
        found
    }

    /// Adds an option's name, perhaps with its value behind a blank. Returns true if a value must follow.
    fn name(&mut self, name: &[u8], next: Option<&Vec<u8>>) -> bool {
        if !self.options.is_empty() {
            self.options.push(b'\n');
        }
        self.options.extend_from_slice(name);
        self.options.push(b' ');
        if split_args(name).is_ok_and(|words| words.len() > 1) {
            return false;
        }
        // An empty list of save points, as a script that joins an array leaves it.
        let alone = next.is_none_or(|next| next.starts_with(b"--"));
        if alone && name.eq_ignore_ascii_case(b"save") {
            self.options.extend_from_slice(b"\"\"");
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Arguments {
        Arguments::parse(&args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    fn options(args: &[&str]) -> String {
        let text = String::from_utf8(parse(args).options).unwrap();
        text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn names_and_values() {
        assert_eq!(options(&["--port", "6380", "--bind", "a", "b"]), r#"port "6380"; bind "a" "b""#);
        assert_eq!(options(&["--port"]), "port");
        assert_eq!(options(&["--port", "--loglevel", "verbose"]), r#"port "--loglevel" "verbose""#);
        assert_eq!(options(&["--port", "--bla", "--loglevel", "verbose"]), r#"port "--bla"; loglevel "verbose""#);
        assert_eq!(options(&["--replicaof", "--a", "--b"]), r#"replicaof "--a"; b"#);
        assert_eq!(options(&["--maxmemory 700mb", "--maxmemory-policy volatile-lru"]).matches(';').count(), 1);
        assert_eq!(options(&["x.conf", "loglevel", "verbose", "--port 1"]), r#""loglevel" "verbose"; port 1"#);
    }

    #[test]
    fn save_needs_no_value() {
        assert_eq!(options(&["--save", "--port", "1"]), r#"save ""; port "1""#);
        assert_eq!(options(&["--port", "1", "--save"]), r#"port "1"; save """#);
        assert_eq!(options(&["--save", "", "--port", "1"]), r#"save ""; port "1""#);
        assert_eq!(
            options(&["--proc-title-template", "--save", "--save", ""]),
            r#"proc-title-template "--save"; save """#
        );
    }

    #[test]
    fn file_and_standard_input() {
        assert_eq!(parse(&[]), Arguments::default());
        let found = parse(&["a.conf", "--port", "1", "-"]);
        assert_eq!((found.file, found.stdin), (Some("a.conf".into()), true));
        assert!(parse(&["-"]).stdin);
        assert!(parse(&["-", "--port", "1"]).stdin);
        let middle = parse(&["a.conf", "-", "--port", "1"]);
        assert!(!middle.stdin, "only at either end");
        assert!(parse(&["--port", "-"]).stdin, "Redis takes the last one so, too");
    }
}
