//! `holdfast completions` and `holdfast man`, compared with the output of `--help`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::support::Scratch;

fn holdfast(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast")).args(words).output().unwrap()
}

fn text(words: &[&str]) -> String {
    let output = holdfast(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands in the help of a command.
fn commands(help: &str) -> Vec<String> {
    let list = help.split("\nCommands:\n").nth(1).unwrap_or("").split("\n\n").next().unwrap_or("");
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The long options in the help of a command.
fn options(help: &str) -> BTreeSet<String> {
    let begins = |line: &&str| line.starts_with("--") || line.starts_with('-') && line.get(2..4) == Some(", ");
    let lines = help.lines().map(str::trim_start).filter(begins);
    let words = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    words.map(|word| word.trim_end_matches([',', '.']).to_owned()).collect()
}

/// Every command by its words, with its long options.
fn all() -> Vec<(Vec<String>, BTreeSet<String>)> {
    let (mut found, mut open) = (Vec::new(), vec![Vec::<String>::new()]);
    while let Some(words) = open.pop() {
        let help = text(&words.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>());
        open.extend(commands(&help).into_iter().map(|name| [words.clone(), vec![name]].concat()));
        found.push((words, options(&help)));
    }
    found
}

#[test]
fn pages_and_completions_have_every_command_and_option() {
    let all = all();
    assert!(all.len() > 15, "{all:?}");
    let of = |name: &str| &all.iter().find(|(words, _)| words == &[name]).unwrap().1;
    assert!(of("server").len() > 200 && of("server").contains("--cluster-seeds"));
    assert!(of("bench").contains("--zipf-theta"));

    let scratch = Scratch::new();
    let dir = scratch.path().join("a").join("man");
    text(&["man", dir.to_str().unwrap()]);
    let shells = ["bash", "elvish", "fish", "powershell", "zsh"];
    let scripts = shells.map(|shell| (shell, text(&["completions", shell])));
    let mut pages = 0;
    for (words, options) in &all {
        let name = ["holdfast".to_owned()].iter().chain(words).cloned().collect::<Vec<_>>().join("-");
        let page = fs::read_to_string(dir.join(format!("{name}.1"))).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(page.contains(&format!("\"Holdfast {}\"", env!("CARGO_PKG_VERSION"))), "{page}");
        pages += 1;
        for option in options {
            // A page escapes each dash.
            assert!(page.contains(&option.replace('-', "\\-")), "{name}.1 lacks {option}");
            for (shell, script) in &scripts {
                let plain = option.trim_start_matches('-');
                assert!(script.contains(plain), "the script for {shell} lacks {option} of {name}");
            }
        }
        for (shell, script) in &scripts {
            assert!(words.iter().all(|word| script.contains(word.as_str())), "{shell}: {words:?}");
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), pages, "pages of nothing");
}

/// The words that bash offers behind these words.
fn offered(script: &str, words: &[&str]) -> String {
    let last = words.len() - 1;
    let program = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; _holdfast holdfast '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words[last],
        words[last - 1]
    );
    // The script is longer than an argument may be.
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bash = bash.spawn().unwrap();
    bash.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn bash_completes() {
    if Command::new("bash").arg("--version").output().is_err() {
        return;
    }
    let script = text(&["completions", "bash"]);
    assert_eq!(offered(&script, &["holdfast", "dev"]), "dev-cluster");
    assert_eq!(offered(&script, &["holdfast", "cluster", "fin"]), "finalize");
    assert_eq!(offered(&script, &["holdfast", "server", "--cluster-se"]), "--cluster-seeds --cluster-secret");
    assert_eq!(offered(&script, &["holdfast", "server", "--io-driver", ""]), "auto epoll io_uring");
    assert_eq!(offered(&script, &["holdfast", "bench", "--mode", "p"]), "pipeline");
}

#[test]
fn mistakes_are_named() {
    let output = holdfast(&["completions", "tcsh"]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("bash, elvish, fish"));
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let output = holdfast(&["man", file.to_str().unwrap()]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("file: "), "{output:?}");
}
