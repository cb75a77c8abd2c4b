//! The title of the process: what `ps` shows in place of the command line (`set-proc-title`, `proc-title-template`).
//!
//! The kernel shows the present contents of the memory that it laid the arguments out in. If their last byte is not the
//! zero of the last argument, it goes on into the environment behind them. So a title is written there, and the
//! environment is copied away first to make room. Title and arguments are no objects of Rust: the texts that are kept
//! are copied before.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::{fs, io};

use node::config::Settings;

/// Where a title may stand, and what it can name.
#[derive(Debug)]
pub struct Title {
    /// `None`: the system does not say where, or nobody asked for a title.
    area: Option<Area>,
    program: Vec<u8>,
    config_file: Vec<u8>,
}

#[derive(Debug)]
struct Area {
    /// Address of the first argument.
    start: usize,
    /// Bytes of the arguments.
    arguments: usize,
    /// Bytes of the arguments and the environment.
    len: usize,
}

impl Title {
    /// Makes room for titles, if `set-proc-title` says so. Only while the process has one thread.
    pub fn reserve(settings: &Settings, config_file: Option<&Path>) -> Self {
        let program = std::env::args_os().next().map(OsString::into_vec).unwrap_or_default();
        let config_file = config_file.map(|path| path.as_os_str().as_encoded_bytes().to_vec()).unwrap_or_default();
        let area = settings
            .set_proc_title
            .then(Area::find)
            .and_then(|found| found.inspect_err(|error| tracing::debug!(%error, "the process keeps its title")).ok());
        if area.is_some() {
            for (name, value) in std::env::vars_os() {
                // SAFETY: there is one thread yet, so nobody reads the environment meanwhile.
                unsafe { std::env::set_var(name, value) };
            }
        }
        Self { area, program, config_file }
    }

    /// Shows the title that the settings ask for, as much of it as there is room for.
    pub fn show(&mut self, settings: &Settings) {
        let Some(area) = &self.area else { return };
        let text = expand(&settings.proc_title_template, |name| self.value(name, settings));
        let room = area.len - 1;
        let text = text.get(..room).unwrap_or(&text);
        let mut bytes = vec![0; area.len];
        if let Some(place) = bytes.get_mut(..text.len()) {
            place.copy_from_slice(text);
        }
        // Where the zero of the last argument was: the sign that this is a title, which ends at its first zero.
        match bytes.get_mut(area.arguments - 1) {
            Some(end) if text.len() < area.arguments - 1 => *end = b'.',
            Some(end) if text.len() == area.arguments - 1 && area.len > area.arguments => *end = b' ',
            _ => {}
        }
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(area.start);
        // SAFETY: these bytes are the process's first arguments and environment, writable as the kernel laid them out.
        // The environment has been copied away, and the arguments have been read. `std::env::args` would still find a
        // text that ends within them, because the last byte stays zero. `&mut self` keeps titles one after another.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
    }

    fn value(&self, name: &[u8], settings: &Settings) -> Vec<u8> {
        let socket = || settings.unixsocket.clone().unwrap_or_default();
        let port = settings.port_of_clients();
        match name {
            b"title" => self.program.clone(),
            b"listen-addr" if port == 0 => socket(),
            b"listen-addr" => {
                let address = settings.bind.first().map_or("*", |address| address.trim_start_matches('-'));
                format!("{address}:{port}").into_bytes()
            }
            b"port" => settings.port.to_string().into_bytes(),
            b"tls-port" => settings.tls_port.to_string().into_bytes(),
            b"unixsocket" => socket(),
            b"config-file" => self.config_file.clone(),
            // "server-mode": neither a cluster nor a sentinel.
            _ => Vec::new(),
        }
    }
}

impl Area {
    /// Asks the system where it put arguments and environment.
    fn find() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/self/stat")?;
        Self::of(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// From the text of `/proc/self/stat`: fields 48 to 51 are the bounds of the arguments and of the environment.
    fn of(stat: &str) -> Option<Self> {
        // The second field is a name in parentheses that may hold anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let bounds: Vec<usize> =
            fields.split_whitespace().skip(45).take(4).map_while(|text| text.parse().ok()).collect();
        let [start, end, environment, environment_end] = bounds[..] else { return None };
        let arguments = end.checked_sub(start).filter(|len| start > 0 && *len > 1)?;
        let more = if environment == end { environment_end.saturating_sub(end) } else { 0 };
        Some(Self { start, arguments, len: arguments + more })
    }
}

/// The template with its variables replaced, without spaces at the ends.
fn expand(template: &[u8], value: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut title = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        let (before, behind) = rest.split_at(open);
        let Some(close) = behind.iter().position(|byte| *byte == b'}') else { break };
        title.extend_from_slice(before);
        title.append(&mut value(&behind[1..close]));
        rest = &behind[close + 1..];
    }
    title.extend_from_slice(rest);
    // A zero would end it.
    title.retain(|byte| *byte != 0);
    title.trim_ascii().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let value = |name: &[u8]| if name == b"title" { b"holdfast".to_vec() } else { Vec::new() };
        assert_eq!(expand(b"{title} {server-mode}", value), b"holdfast");
        assert_eq!(expand(b" a{title}b{title} ", value), b"aholdfastbholdfast");
        assert_eq!(expand(b"{title", value), b"{title");
    }

    #[test]
    fn where_the_arguments_are() {
        let numbers: Vec<String> = (3..=47).map(|n| n.to_string()).collect();
        let stat = |bounds: &str| format!("7 (a) b) {} {bounds} 0\n", numbers.join(" "));
        let area = Area::of(&stat("1000 1020 1020 1100")).expect("an area");
        assert_eq!((area.start, area.arguments, area.len), (1000, 20, 100));
        assert_eq!(Area::of(&stat("1000 1020 2000 2100")).expect("an area").len, 20);
        assert!(Area::of(&stat("0 0 0 0")).is_none());
        assert!(Area::of("").is_none());
    }
}
