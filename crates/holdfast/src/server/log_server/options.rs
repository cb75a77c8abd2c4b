//! The command line of a log-server: that of `holdfast server`, with fewer settings, and `--dirs`.

use std::collections::BTreeSet;
use std::fmt::Write;

use node::config::{Loaded, Row, SECTIONS, explain, find};

/// The settings that a log-server heeds.
const HEEDED: [&str; 31] = [
    "bind",
    "port",
    "protected-mode",
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-cluster",
    "dir",
    "pidfile",
    "logfile",
    "loglevel",
    "supervised",
    "set-proc-title",
    "proc-title-template",
    "disable-thp",
    "requirepass",
    "cluster-seeds",
    "cluster-secret",
    "cluster-port",
    "cluster-announce-ip",
    "cluster-copies",
    "cluster-host",
    "cluster-lease",
    "cluster-enabled",
    "log-dirs",
    "log-segment-size",
    "log-pace",
    "appendonly",
    "appendfsync",
];

/// Settings that a file for nodes may have, and that say nothing to a log-server.
const SILENT: [&str; 3] = ["cluster-enabled", "appendonly", "appendfsync"];

/// The settings that a log-server heeds, as rows.
pub fn settings() -> impl Iterator<Item = &'static Row> {
    let heeds = |row: &&Row| HEEDED.contains(&row.name) && !SILENT.contains(&row.name) && row.name != "log-dirs";
    SECTIONS.iter().flat_map(|section| section.rows).filter(heeds)
}

/// The arguments as the configuration reads them: `--dirs` is `log-dirs` there.
pub fn of(args: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let renamed = |arg: &Vec<u8>| if arg == b"--dirs" { b"--log-dirs".to_vec() } else { arg.clone() };
    args.iter().map(renamed).collect()
}

/// True if the file or the command line names this setting.
pub fn names(loaded: &Loaded, name: &str) -> bool {
    find(name.as_bytes()).is_some_and(|(id, _)| loaded.named.contains(&id))
}

/// Warnings about settings that are named and not heeded.
pub fn without_effect(loaded: &Loaded) -> Vec<String> {
    let heeded: BTreeSet<&str> = HEEDED.into_iter().collect();
    let rows = SECTIONS.iter().flat_map(|section| section.rows);
    let ignored = rows.filter(|row| !heeded.contains(row.name) && names(loaded, row.name));
    ignored.map(|row| format!("{} has no effect: a log-server has no keys", row.name)).collect()
}

/// The text of `holdfast log-server --help`.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: holdfast log-server [FILE] --dirs DIR [DIR ...] --cluster-seeds SEEDS [--NAME VALUE ...]\n\n\
         A log-server holds copies of the logs of a cluster's nodes, and may vote on the metadata. It has no keys.\n\
         FILE has the syntax of redis.conf, as for `holdfast server`. `port` answers `holdfast cluster status` alone.\n\n\
         \x20 --dirs\n      Directories for copies of logs, one for each disk; `log-dirs` in FILE.\n",
    );
    for row in settings() {
        let _ = writeln!(text, "  --{}", row.name);
        explain(row).iter().for_each(|line| {
            let _ = writeln!(text, "      {line}");
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heeded_setting_exists() {
        assert!(HEEDED.iter().all(|name| find(name.as_bytes()).is_some()));
        assert_eq!(settings().count(), HEEDED.len() - SILENT.len() - 1);
        assert!(help().contains("--cluster-seeds") && !help().contains("maxmemory"));
    }

    #[test]
    fn dirs_are_the_directories_of_logs() {
        let args = ["--dirs", "a", "b"].map(|word| word.as_bytes().to_vec());
        assert_eq!(of(&args), ["--log-dirs", "a", "b"].map(|word| word.as_bytes().to_vec()));
    }
}
