//! The name of the machine that a node runs on. Nodes of one machine fail together, so the cluster must know them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::chance;

/// The name's file, in the folder of the node's metadata.
const FILE: &str = "host";
/// The kernel's name of its present boot: one for all processes of a machine, containers included.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Digits of a boot's name that make the machine's name.
const DIGITS: usize = 12;

/// `configured`, or the name in `folder`. If there is none, it is made from the kernel's boot and kept: later boots do
/// not change it. On a disk without room it is made, and kept by a later start.
///
/// # Errors
///
/// The folder cannot be read, or the system has no randomness.
pub fn name(configured: Option<&[u8]>, folder: &Path) -> io::Result<String> {
    if let Some(name) = configured {
        return Ok(String::from_utf8_lossy(name).into_owned());
    }
    let file = folder.join(FILE);
    match fs::read_to_string(&file) {
        Ok(kept) if !kept.trim().is_empty() => return Ok(kept.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", file.display()))),
    }
    let name = format!("host-{}", boot()?);
    if let Err(error) = keep(&name, folder) {
        tracing::warn!("{} cannot be written: {error}. After a boot this machine has another name", file.display());
    }
    Ok(name)
}

fn keep(name: &str, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let new = folder.join(format!("{FILE}.new"));
    let mut file = File::create(&new)?;
    writeln!(file, "{name}").and_then(|()| file.sync_all())?;
    fs::rename(&new, folder.join(FILE))?;
    File::open(folder)?.sync_all()
}

/// Digits of the present boot's name; random ones on a system that has none.
fn boot() -> io::Result<String> {
    let id = fs::read_to_string(BOOT).unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(DIGITS).collect();
    if digits.len() == DIGITS {
        return Ok(digits);
    }
    let random: [u8; DIGITS / 2] = chance::random()?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_configured_or_kept_or_made_of_the_boot() {
        let folder = std::env::temp_dir().join(format!("holdfast-machine-{}", std::process::id()));
        assert_eq!(name(Some(b"rack-1"), &folder).unwrap(), "rack-1");
        assert!(!folder.exists(), "a configured name is not kept");
        let made = name(None, &folder).unwrap();
        assert!(made.len() == "host-".len() + DIGITS && made.starts_with("host-"), "{made}");
        let other = folder.join("other");
        assert_eq!(name(None, &other).unwrap(), made, "another process of this machine");
        // The machine has started again since: its kernel has another name for this boot.
        fs::write(folder.join(FILE), "host-earlier\n").unwrap();
        assert_eq!(name(None, &folder).unwrap(), "host-earlier");
        fs::write(folder.join(FILE), "").unwrap();
        assert_eq!(name(None, &folder).unwrap(), made, "a file that a full disk left empty");
        fs::remove_dir_all(&folder).unwrap();
    }
}
