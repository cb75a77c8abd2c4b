//! Checks `packaging/`, as far as that is possible without the tools that read it (`packaging/check` runs those):
//! versions, settings, ports, users and files are those of the binary, and the same everywhere.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use node::config::{Arguments, Disk, Settings, find, load};

use super::crates;

fn text(name: &str) -> String {
    fs::read_to_string(crates().join("..").join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

const UNIT: &str = "packaging/systemd/holdfast.service";
const CONFIGURATION: &str = "packaging/holdfast.conf";
const DOCKERFILE: &str = "packaging/docker/Dockerfile";
const COMPOSE: [&str; 2] = ["packaging/docker/compose.yaml", "packaging/docker/compose.cluster.yaml"];
const STATEFUL_SET: &str = "packaging/helm/holdfast/templates/statefulset.yaml";
const CONFIG_MAP: &str = "packaging/helm/holdfast/templates/configmap.yaml";

/// The text behind `start` in a line of a file.
fn behind<'a>(text: &'a str, start: &str) -> &'a str {
    let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix(start));
    line.unwrap_or_else(|| panic!("no line begins with `{start}`")).trim().trim_matches('"')
}

/// The settings that a command line or a configuration gives, with the complaints about them.
fn understood(arguments: &[&str]) -> Settings {
    let arguments: Vec<Vec<u8>> = arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
    let loaded = load(&Arguments::parse(&arguments), &Disk, &mut || Ok(Vec::new()));
    let loaded = loaded.unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
    assert!(loaded.warnings.is_empty(), "{arguments:?}: {:?}", loaded.warnings);
    Settings::of(&loaded.values)
}

/// As [`understood`], of the text of a file.
fn understood_file(name: &str, text: &str) -> Settings {
    let path = std::env::temp_dir().join(format!("holdfast-packaging-{name}-{}", std::process::id()));
    fs::write(&path, text).expect("a file");
    let settings = understood(&[&path.display().to_string()]);
    let _ = fs::remove_file(&path);
    settings
}

#[test]
fn versions_are_cargos() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = text("packaging/helm/holdfast/Chart.yaml");
    assert_eq!(behind(&chart, "version: "), version);
    assert_eq!(behind(&chart, "appVersion: "), version);
    let changes = text("packaging/debian/changelog");
    assert!(changes.starts_with(&format!("holdfast ({version}-1) ")), "{changes}");
    for name in COMPOSE {
        assert_eq!(behind(&text(name), "image: "), format!("holdfast:{version}"), "{name}");
    }
    let rust = text("Cargo.toml");
    let rust = behind(&rust, "rust-version = ");
    assert!(behind(&text(DOCKERFILE), "FROM rust:").starts_with(&format!("{rust}-")), "{rust}");
}

#[test]
fn the_unit_starts_the_server_that_the_package_installs() {
    let (unit, manifest) = (text(UNIT), text("crates/holdfast/Cargo.toml"));
    let command: Vec<&str> = behind(&unit, "ExecStart=").split(' ').collect();
    assert_eq!(command[..3], ["/usr/bin/holdfast", "server", "/etc/holdfast/holdfast.conf"]);
    let settings = understood(&command[3..]);
    assert_eq!(behind(&unit, "Type="), "notify");
    assert_eq!(settings.supervised, node::config::Supervised::Systemd);
    for (source, place) in [("target/release/holdfast", "usr/bin/"), ("../../packaging/holdfast.conf", "etc/holdfast/")]
    {
        assert!(manifest.contains(&format!("[\"{source}\", \"{place}\", ")), "{source}");
    }
    // Every source that the build does not produce exists.
    let assets = manifest.split("\nassets = [").nth(1).expect("the assets");
    let sources = assets.lines().filter_map(|line| line.trim().strip_prefix("[\"")?.split('"').next());
    let kept: Vec<&str> = sources.filter(|source| !source.contains("target/")).collect();
    assert!(kept.len() >= 4, "{kept:?}");
    for source in kept {
        assert!(crates().join("holdfast").join(source).is_file(), "{source}");
    }
    // cargo-deb takes unit and user from their folder.
    assert!(manifest.contains("unit-scripts = \"../../packaging/systemd\", unit-name = \"holdfast\""));
    let user = text("packaging/systemd/holdfast.sysusers");
    assert!(user.contains(&format!("\nu {} ", behind(&unit, "User="))), "{user}");
    assert!(text("packaging/debian/postinst").contains("systemd-sysusers holdfast.conf"));
}

#[test]
fn the_configuration_of_the_package_is_understood() {
    let shipped = text(CONFIGURATION);
    let settings = understood_file("plain", &shipped);
    assert_eq!(settings.dir, format!("/var/lib/{}", behind(&text(UNIT), "StateDirectory=")).into_bytes());
    assert!(settings.appendonly && settings.port == 6379 && settings.protected_mode);
    assert!(!settings.bind.is_empty() && settings.bind.iter().all(|host| host == "127.0.0.1" || host == "-::1"));

    // Settings that it offers as comments.
    let offered = |line: &str| find(line.split(' ').next().unwrap_or("").as_bytes()).is_some();
    let lines = shipped.lines().map(|line| line.strip_prefix("# ").filter(|line| offered(line)).unwrap_or(line));
    let all = lines.collect::<Vec<_>>().join("\n");
    let settings = understood_file("offered", &all);
    assert_eq!((settings.maxmemory, settings.bind.len()), (4 << 30, 1));
    let socket = settings.unixsocket.expect("a socket");
    assert!(socket.starts_with(format!("/run/{}/", behind(&text(UNIT), "RuntimeDirectory=")).as_bytes()));
    assert!(settings.cluster_secret.is_some() && settings.requirepass.is_some());
    assert_eq!(node::config::seeds(&settings.cluster_seeds).map(|seeds| seeds.len()), Some(3));
}

/// The lines of a configuration in a YAML file, behind `key: |`.
fn block(yaml: &str, key: &str) -> String {
    let mut lines = yaml.lines().skip_while(|line| line.trim() != format!("{key}: |"));
    let depth = |line: &str| line.len() - line.trim_start().len();
    let outer = lines.next().map(depth).unwrap_or_else(|| panic!("no {key}"));
    lines.take_while(|line| depth(line) > outer).map(|line| line.trim().to_owned() + "\n").collect()
}

#[test]
fn containers_give_settings_that_exist() {
    for (at, name) in COMPOSE.iter().enumerate() {
        let yaml = text(name);
        let lines = block(&yaml, "content").replace("${", "{").replace(":?", " ");
        let settings = understood_file(&format!("compose-{at}"), &lines);
        assert!(settings.requirepass.is_some(), "{name}");
        let seeds = node::config::seeds(&settings.cluster_seeds).unwrap_or_default();
        assert_eq!(seeds.len(), at * 3);
        for (host, bus) in seeds {
            assert_eq!(bus, settings.port + 10_000);
            assert!(yaml.contains(&format!("\n  {host}:\n    <<: *node\n")), "{host} is no service");
        }
        assert!(yaml.contains(&format!(":{}\"", settings.port)), "{name} does not publish the port");
    }
    let lines = block(&text(CONFIG_MAP), "holdfast.conf");
    let names: Vec<&str> = lines.lines().filter(|line| !line.starts_with("{{")).collect();
    assert!(names.len() >= 3, "{names:?}");
    for line in names {
        let name = line.split(' ').next().unwrap_or("");
        assert!(name == "include" || find(name.as_bytes()).is_some(), "{line}");
    }
    let set = text(STATEFUL_SET);
    let options: Vec<&str> = set.lines().filter_map(|line| line.trim().strip_prefix("- --")).collect();
    let expected = ["metrics-port", "metrics-bind", "sentinel-port", "sentinel-master-name", "cluster-announce-ip"];
    assert_eq!(options, expected);
    assert!(options.iter().all(|name| find(name.as_bytes()).is_some()));
}

#[test]
fn containers_open_the_ports_of_a_server() {
    let settings = understood(&["--cluster-enabled", "yes"]);
    let ports = [settings.port, settings.port_for_smart_clients(), settings.port + 10_000];
    let words = ports.map(|port| port.to_string());
    let docker = text(DOCKERFILE);
    assert_eq!(behind(&docker, "EXPOSE "), words.join(" "));
    let numbers = |yaml: &str, key: &str| -> BTreeSet<String> {
        yaml.lines().filter_map(|line| line.trim().strip_prefix(key)).map(|port| port.trim().to_owned()).collect()
    };
    let set = text(STATEFUL_SET);
    let mut all: BTreeSet<String> = words.iter().cloned().collect();
    // The endpoint of the probes, which the chart opens, and that of clients of Sentinel.
    for option in ["- --metrics-port\n", "- --sentinel-port\n"] {
        let value = set.split(option).nth(1).unwrap_or("").lines().next().unwrap_or("");
        all.insert(behind(value, "- ").to_owned());
    }
    assert_eq!(numbers(&set, "containerPort:"), all);
    assert_eq!(numbers(&text("packaging/helm/holdfast/templates/services.yaml"), "port:"), all);
    assert!(text("packaging/helm/holdfast/templates/_helpers.tpl").contains(&format!("%s-%d.%s:{}", settings.port)));

    // The user of the image owns the volume.
    let user = behind(&set, "runAsUser: ").to_owned();
    assert_eq!(behind(&docker, "USER "), format!("{user}:{user}"));
    assert!(docker.contains(&format!("-o {user} -g {user} /image/data")));
    assert!(docker.contains("\nWORKDIR /data\nVOLUME /data\n"));
}

#[test]
fn the_chart_uses_every_value_that_it_offers() {
    let values = text("packaging/helm/holdfast/values.yaml");
    // Keys of the first two levels.
    let (mut outer, mut offered) = (String::new(), BTreeSet::new());
    for line in values.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((key, rest)) = line.split_once(':') else { continue };
        match key.strip_prefix("  ") {
            None if rest.trim().is_empty() => outer = key.to_owned(),
            None => {
                outer.clear();
                offered.insert(key.to_owned());
            }
            Some(inner) => {
                offered.insert(format!("{outer}.{inner}"));
            }
        }
    }
    let mut used = BTreeSet::new();
    let folder = crates().join("../packaging/helm/holdfast/templates");
    let names = ["", "tests"].map(|inner| fs::read_dir(folder.join(inner)).expect("templates"));
    for path in names.into_iter().flatten().map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
        let template = fs::read_to_string(&path).expect("text");
        let words = template.split(".Values.").skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(rest.len());
            rest[..end].to_owned()
        });
        used.extend(words);
    }
    assert!(offered.len() > 25, "{offered:?}");
    assert_eq!(offered, used);
    // The values that `packaging/check` tries are the chart's.
    let tried = text("packaging/helm/all-values.yaml");
    for line in tried.lines().filter(|line| !line.starts_with(['#', ' '])) {
        let key = line.split(':').next().unwrap_or("");
        let known = offered.iter().any(|value| value == key || value.starts_with(&format!("{key}.")));
        assert!(known, "{key}");
    }
}

/// Missing tools are passed over.
#[test]
fn the_tools_accept_what_they_read() {
    let Ok(checked) = Command::new(crates().join("../packaging/check")).output() else { return };
    let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}

/// The image is built of the files that `.dockerignore` lets through: no source may include another file.
#[test]
fn the_image_is_built_of_the_crates_alone() {
    let let_through = text(".dockerignore");
    let lines: Vec<&str> = let_through.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines, ["*", "!Cargo.toml", "!Cargo.lock", "!crates", "crates/*/tests"]);
    for (name, text) in super::sources().iter().filter(|(name, _)| name.contains("/src/")) {
        let depth = name.matches('/').count() - 1;
        for line in text.lines().filter(|line| line.contains("include_str!(") || line.contains("include_bytes!(")) {
            assert!(line.matches("../").count() <= depth, "{name}: {line}");
        }
    }
}
