//! A kernel for guests: built from a source tree into the user's cache, and found there.

mod build;
mod parts;
mod tools;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::error::failed;

pub use build::{Options, build};
pub(crate) use build::{is_tree, make_module};
pub(crate) use parts::ours;

/// Kernel versions for which knee has patches, oldest first.
pub const VERSIONS: [&str; 3] = ["6.1", "6.12", "7.3"];
/// Version to build by default: that of the reference runs and of most experiments.
const DEFAULT_VERSION: &str = VERSIONS[0];
/// Values that a kernel's ticks per second may have.
pub const HZ: [u32; 4] = [100, 250, 300, 1000];
/// Default ticks per second of a kernel, as of hosts in experiments.
pub const DEFAULT_HZ: u32 = 1000;
/// Environment variable that names the directory of built kernels, in place of the cache.
pub const DIRECTORY_VARIABLE: &str = "KNEE_VKERNEL";
/// File that describes what a directory holds. A build writes it last.
const LABEL: &str = "built";

/// A built kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    pub directory: PathBuf,
    /// Version as experiments name it, such as 6.1.
    pub version: String,
    /// Full release, such as 6.1.192.
    pub release: String,
    /// Ticks per second.
    pub hz: u32,
    /// SHA-256 of what knee adds to the source: patches, configuration, devices, algorithms.
    pub inputs: String,
    /// SHA-256 of the kernel's file.
    pub linux_sha256: String,
}

/// The guest's program, built by `build.rs`.
pub static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest"));

impl Built {
    /// Returns the path of the kernel's file.
    pub fn linux(&self) -> PathBuf {
        self.directory.join("linux")
    }

    /// Returns the manifest's entries for the kernel and the guest's program: name and value.
    pub fn values(&self) -> [(&'static str, String); 4] {
        let [_, release, inputs, linux] = self.fields().map(|(name, value)| (name, value.into()));
        [release, inputs, linux, ("program_sha256", sha256(&[PROGRAM]))]
    }

    fn fields(&self) -> [(&'static str, &str); 4] {
        [
            ("version", &self.version),
            ("kernel", &self.release),
            ("inputs_sha256", &self.inputs),
            ("kernel_sha256", &self.linux_sha256),
        ]
    }

    fn write(&self) -> Result<(), Error> {
        let lines = self.fields().map(|(name, value)| format!("{name} = {value}\n"));
        let path = self.directory.join(LABEL);
        let text = format!("{}hz = {}\n", lines.concat(), self.hz);
        knee_files::write(&path, text).map_err(failed(path.display()))
    }

    /// Returns the kernel if its file is still the one that was built.
    fn checked(self) -> Result<Built, Error> {
        let path = self.linux();
        if fs::read(&path).is_ok_and(|bytes| sha256(&[&bytes]) == self.linux_sha256) {
            return Ok(self);
        }
        Err(Error::Failed(format!(
            "{} is not what was built: run knee vkernel build again",
            path.display()
        )))
    }

    /// Returns the kernel if it starts on this host. It may be linked with another system's C library.
    fn started(self) -> Result<Built, Error> {
        let refuse = |why: &str| {
            let why = why.lines().next().unwrap_or("it says nothing");
            let linux = self.linux().display().to_string();
            Error::Failed(format!(
                "{linux} does not start on this system ({why}): run knee vkernel build again"
            ))
        };
        let output = Command::new(self.linux()).arg("--version").output();
        let output = output.map_err(|why| refuse(&why.to_string()))?;
        match output.status.success() {
            true => Ok(self),
            false => Err(refuse(&String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Reads the kernel built in a directory. `None` means that no complete build is there.
    fn read(directory: &Path) -> Option<Built> {
        let text = fs::read_to_string(directory.join(LABEL)).ok()?;
        let value = |wanted: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(" = "));
            Some(pairs.find(|(name, _)| *name == wanted)?.1.to_owned())
        };
        Some(Built {
            directory: directory.to_owned(),
            version: value("version")?,
            release: value("kernel")?,
            hz: value("hz")?.parse().ok()?,
            inputs: value("inputs_sha256")?,
            linux_sha256: value("kernel_sha256")?,
        })
    }
}

/// Finds the kernel with this version and these ticks per second. `None` matches all.
/// The newest version wins, then the most ticks per second.
///
/// # Errors
/// Fails if no such kernel exists, if it was built from another knee's parts, or if it does not start here.
pub fn find(version: Option<&str>, hz: Option<u32>) -> Result<Built, Error> {
    let cache = cache()?;
    check_is_own(&cache)?;
    if env::var_os(DIRECTORY_VARIABLE).is_some() {
        // The directory may also hold one kernel. The path is absolute, because guests run in directories of their
        // own.
        let directory = cache.canonicalize().unwrap_or_else(|_| cache.clone());
        match Built::read(&directory) {
            Some(there) if is_wanted(&there, version, hz) => return there.checked()?.started(),
            Some(there) => {
                return Err(Error::Failed(format!(
                    "{DIRECTORY_VARIABLE}={} is Linux {} with HZ {}, not the kernel{}: name the cache that it is in, or leave it out",
                    directory.display(),
                    there.release,
                    there.hz,
                    in_words(version, hz)
                )));
            }
            None => {}
        }
    }
    choose(built(&cache), version, hz)?.checked()?.started()
}

fn is_wanted(built: &Built, version: Option<&str>, hz: Option<u32>) -> bool {
    version.is_none_or(|version| built.version == version) && hz.is_none_or(|hz| built.hz == hz)
}

/// Describes the wanted kernel, to follow the word "kernel" in a message.
fn in_words(version: Option<&str>, hz: Option<u32>) -> String {
    let version = version.map_or_else(String::new, |version| format!(" {version}"));
    let hz = hz.map_or_else(String::new, |hz| format!(" with HZ {hz}"));
    version + &hz
}

fn choose(mut there: Vec<Built>, version: Option<&str>, hz: Option<u32>) -> Result<Built, Error> {
    if let Some(version) = version {
        check_version(version)?;
    }
    let mut command = "knee vkernel build".to_owned();
    if let Some(version) = version {
        command += &format!(" --version {version}");
    }
    if let Some(hz) = hz.filter(|hz| *hz != DEFAULT_HZ) {
        command += &format!(" --hz {hz}");
    }
    there.retain(|built| is_wanted(built, version, hz));
    let any = there.last().cloned();
    there.retain(|built| built.inputs == parts::inputs(&built.version, built.hz));
    match (there.pop(), any) {
        (Some(built), _) => Ok(built),
        (None, Some(old)) => Err(Error::Failed(format!(
            "the kernel {} in {} was built by another knee, with other algorithms or patches: bring it up to date with {command}",
            old.release,
            old.directory.display()
        ))),
        (None, None) => Err(Error::Failed(format!(
            "no kernel{} is built yet: run {command} (some minutes, once)",
            in_words(version, hz)
        ))),
    }
}

/// Refuses a version for which knee has no patches.
fn check_version(version: &str) -> Result<(), Error> {
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(Error::Failed(format!("Linux {version}: knee has patches for {}", VERSIONS.join(", "))))
}

/// Returns all complete kernels in a cache, by version from the oldest, then by ticks per second from the lowest.
pub fn built(cache: &Path) -> Vec<Built> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let mut all: Vec<Built> = entries.filter_map(|entry| Built::read(&entry.path())).collect();
    let number = |text: &str| -> Vec<u32> { text.split('.').flat_map(str::parse).collect() };
    all.sort_by_key(|built| (number(&built.release), built.hz, built.directory.clone()));
    all
}

/// Returns the directory in which kernels are built and found: what `KNEE_VKERNEL` names, or `knee/vkernel` in the
/// user's cache directory.
///
/// # Errors
/// Fails if the user has no cache directory.
pub fn cache() -> Result<PathBuf, Error> {
    cache_of(&|name| env::var_os(name))
}

fn cache_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    if let Some(named) = variable(DIRECTORY_VARIABLE) {
        return std::path::absolute(&named).map_err(|why| {
            Error::Failed(format!("{DIRECTORY_VARIABLE}={}: {why}", named.to_string_lossy()))
        });
    }
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| {
        Error::Failed(
            "there is no cache directory: set HOME or XDG_CACHE_HOME to an absolute path"
                .to_owned(),
        )
    })?;
    Ok(cache.join("knee/vkernel"))
}

/// Refuses a directory that users other than this one and root can write to, because its programs are run.
fn check_is_own(directory: &Path) -> Result<(), Error> {
    knee_files::trust::check_own(directory).map_err(|why| {
        Error::Failed(format!(
            "{}: {why}, and the kernel there would be run: set XDG_CACHE_HOME to a directory of your own (of root's: /var/cache)",
            directory.display()
        ))
    })
}

/// Returns the SHA-256 of these parts in hexadecimal digits.
pub(crate) fn sha256(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(version: &str, release: &str, hz: u32, inputs: String) -> Built {
        Built {
            directory: PathBuf::from(format!("/cache/{release}")),
            version: version.to_owned(),
            release: release.to_owned(),
            hz,
            inputs,
            linux_sha256: "aa".to_owned(),
        }
    }

    #[test]
    fn a_directory_that_others_may_write_is_no_cache() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("knee/vkernel");
        assert_eq!(check_is_own(&cache), Ok(()));
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = check_is_own(&cache).unwrap_err().to_string();
        assert!(
            refused.contains("XDG_CACHE_HOME") && refused.contains("would be run"),
            "{refused}"
        );
    }

    #[test]
    fn only_a_kernel_of_what_this_knee_has_is_chosen() {
        let good = kernel("6.1", "6.1.192", 1000, parts::inputs("6.1", 1000));
        let slow = kernel("6.1", "6.1.192", 250, parts::inputs("6.1", 250));
        let old = kernel("6.1", "6.1.200", 1000, "0".to_owned());
        let all = || vec![slow.clone(), good.clone(), old.clone()];
        assert_eq!(choose(all(), None, None), Ok(good.clone()));
        assert_eq!(choose(all(), Some("6.1"), Some(1000)), Ok(good.clone()));
        assert_eq!(choose(all(), None, Some(250)), Ok(slow.clone()));
        let why =
            |there: Vec<Built>, version, hz| choose(there, version, hz).unwrap_err().to_string();
        let says = why(vec![old.clone()], None, None);
        assert!(says.contains("6.1.200") && says.contains("knee vkernel build"), "{says}");
        assert_eq!(
            why(all(), Some("6.12"), None),
            "no kernel 6.12 is built yet: run knee vkernel build --version 6.12 (some minutes, once)"
        );
        assert_eq!(
            why(vec![good.clone()], Some("6.1"), Some(250)),
            "no kernel 6.1 with HZ 250 is built yet: run knee vkernel build --version 6.1 --hz 250 (some minutes, once)"
        );
        assert_eq!(
            why(all(), Some("5.15"), None),
            "Linux 5.15: knee has patches for 6.1, 6.12, 7.3"
        );
    }

    #[test]
    fn the_variable_names_the_cache_for_building_and_running() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), OsString::from(v))).collect();
            cache_of(&|name| set.iter().find(|(k, _)| k == name).map(|(_, value)| value.clone()))
        };
        let home = ("HOME", "/home/me");
        assert_eq!(of(&[home]), Ok(PathBuf::from("/home/me/.cache/knee/vkernel")));
        assert_eq!(of(&[home, (DIRECTORY_VARIABLE, "/big/disk")]), Ok(PathBuf::from("/big/disk")));
        let relative = of(&[home, (DIRECTORY_VARIABLE, "here")]).unwrap();
        assert_eq!(relative, env::current_dir().unwrap().join("here"), "guests change directory");
    }

    #[test]
    fn a_directory_says_what_it_holds() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        for release in ["6.1.90", "6.1.192"] {
            let one = Built {
                directory: cache.join(release),
                ..kernel("6.1", release, 1000, "00".to_owned())
            };
            fs::create_dir_all(&one.directory).unwrap();
            assert_eq!(Built::read(&one.directory), None, "not complete");
            one.write().unwrap();
            assert_eq!(Built::read(&one.directory), Some(one));
        }
        let releases: Vec<_> = built(&cache).into_iter().map(|built| built.release).collect();
        assert_eq!(releases, ["6.1.90", "6.1.192"]);
    }

    #[test]
    fn a_kernel_that_is_not_what_was_built_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let built = Built {
            directory: directory.path().to_owned(),
            linux_sha256: sha256(&[b"kernel"]),
            ..kernel("6.1", "6.1.192", 1000, "00".to_owned())
        };
        fs::write(built.linux(), "kernel").unwrap();
        assert_eq!(built.clone().checked(), Ok(built.clone()));
        fs::write(built.linux(), "kern").unwrap();
        assert!(
            built
                .clone()
                .checked()
                .unwrap_err()
                .to_string()
                .contains("/linux is not what was built")
        );

        let script = "#!/bin/sh\necho \"linux: version 'GLIBC_2.38' not found\" >&2; exit 1\n";
        crate::testing::write_program(&built.linux(), script);
        let why = built.started().unwrap_err().to_string();
        let wanted = "/linux does not start on this system (linux: version 'GLIBC_2.38' not found): run knee vkernel build again";
        assert!(why.ends_with(wanted), "{why}");
    }

    #[test]
    fn the_guests_program_is_static_and_has_its_place() {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64")) {
            assert!(PROGRAM.is_empty());
            return;
        }
        let u16_at = |at: usize| u16::from_le_bytes([PROGRAM[at], PROGRAM[at + 1]]);
        // ELF of type `ET_EXEC`, which is not relocated.
        assert_eq!((&PROGRAM[..4], u16_at(16)), (&b"\x7fELF"[..], 2));
        let (first, len) = (u16_at(32), u16_at(54));
        let kinds = (0..u16_at(56)).map(|number| u16_at(usize::from(first + number * len)));
        let kinds: Vec<u16> = kinds.collect();
        // The program has loadable segments, no dynamic section and no interpreter.
        assert!(kinds.contains(&1) && !kinds.contains(&2) && !kinds.contains(&3), "{kinds:?}");
    }

    #[test]
    fn checksums_are_those_of_sha_256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&[b"a", b"bc"]), abc);
    }
}
