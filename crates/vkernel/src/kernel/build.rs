//! Builds a kernel from a source tree. Each step skips what is done, so an interrupted build can continue.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use knee_algo::module::bounded::{self, Includes};
use knee_algo::module::confine::Room;
use knee_run::spec::LinuxVersion;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use super::{
    Built, DEFAULT_HZ, DEFAULT_VERSION, HZ, cache, check_is_own, check_version, parts, sha256,
    tools,
};
use crate::Error;
use crate::error::failed;

/// Kernel options that some versions lack. Newer ones have `CONFIG_SYSCTL` in place of `CONFIG_PROC_SYSCTL`.
const NOT_IN_ALL: [&str; 2] = ["CONFIG_NET_SCH_DUALPI2=y", "CONFIG_PROC_SYSCTL=y"];
/// Names of the source tree and of the algorithms' directory within a kernel's directory.
const TREE: &str = "tree";
const OURS: &str = "knee";
/// File that marks the tree as patched.
const PATCHED: &str = "patched";
/// What the kernel's build needs for DIM, which only drivers select.
const DIM_OPTION: &str = "\nconfig KNEE_NIC\n\tdef_bool y\n\tselect DIMLIB\n";
/// Disk space in bytes for a tree and its build.
const NEEDED_BYTES: u64 = 3 << 30;

/// Options of a build.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A source tree or an archive of one. `None` means the distribution's package.
    pub source: Option<PathBuf>,
    /// The kernel's version. `None` means that of the source, or else 6.1.
    pub version: Option<String>,
    /// Ticks per second. `None` means [`DEFAULT_HZ`].
    pub hz: Option<u32>,
    /// Number of parallel compilers. 0 means one per core.
    pub jobs: usize,
}

/// Builds a kernel or updates it. `tell` receives each step.
///
/// # Errors
/// Fails if something is missing, does not fit or fails. One sentence names the cause and the remedy.
pub fn build(options: &Options, tell: &mut dyn FnMut(&str)) -> Result<Built, Error> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Error::Failed(format!(
            "a kernel in virtual time runs on x86_64, and this is {}: use --on sim",
            std::env::consts::ARCH
        )));
    }
    if let Some(version) = &options.version {
        check_version(version)?;
    }
    let hz = options.hz.unwrap_or(DEFAULT_HZ);
    if !HZ.contains(&hz) {
        return Err(Error::Failed(format!(
            "--hz {hz}: Linux has 100, 250, 300 or 1000 ticks per second"
        )));
    }
    tools::check()?;
    let source = Source::find(options)?;
    let cache = cache()?;
    check_is_own(&cache)?;
    let id = sha256(&[source.identity()?.as_bytes()]);
    let ticks = if hz == DEFAULT_HZ { String::new() } else { format!("-hz{hz}") };
    let directory = cache.join(format!("{}{ticks}-{}", source.version, &id[..12]));
    let step = Step { directory, log: PathBuf::new(), hz, jobs: options.jobs };
    knee_files::Dir::make_all_private(&step.directory)
        .map_err(failed(format!("{}: cannot be made", step.directory.display())))?;
    let step = Step { log: step.directory.join("build.log"), ..step };
    let lock = knee_files::append(&step.directory.join("lock")).map_err(failed("the cache"))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::Failed(format!(
            "another build is at work in {}: wait for it",
            step.directory.display()
        ))
    })?;
    // The compilers inherit the lock, because they continue when this process is killed.
    fcntl_setfd(&lock, FdFlags::empty()).map_err(failed("the cache"))?;
    step.check_room()?;
    tell(&format!("Linux {} in {}", source.version, step.directory.display()));
    step.unpack(&source, tell)?;
    let release = release(&step.tree())?;
    step.patch(&source.version, &release, tell)?;
    step.add_ours()?;
    step.configure(tell)?;
    tell(&format!("building the kernel; {} says what it does", step.log.display()));
    step.make_kernel()?;
    let built = step.finish(&source.version, &release)?;
    tell(&format!("built Linux {release}"));
    Ok(built)
}

/// Origin of the kernel's source.
struct Source {
    version: String,
    from: From,
}

enum From {
    Tree(PathBuf),
    Archive(PathBuf),
    /// The distribution's package of this name.
    Package(String),
}

impl Source {
    fn find(options: &Options) -> Result<Source, Error> {
        let wanted = options.version.as_deref();
        let Some(path) = &options.source else {
            let version = wanted.unwrap_or(DEFAULT_VERSION).to_owned();
            if !tools::is_there("apt-get") || !tools::is_there("dpkg-deb") {
                return Err(Error::Failed(
                    "there is no apt-get to get a kernel's source with: name a tree or an archive with --source (kernel.org has them)"
                        .to_owned(),
                ));
            }
            let package = format!("linux-source-{version}");
            return Ok(Source { version, from: From::Package(package) });
        };
        let path =
            fs::canonicalize(path).map_err(failed(format!("--source {}", path.display())))?;
        // A build runs the source's Makefile with all rights of who builds.
        knee_files::trust::check_tree(&path).map_err(|why| {
            Error::Failed(format!(
                "--source {}: root runs no Makefile that others can have written, and {why}: copy it where nobody else can write",
                path.display()
            ))
        })?;
        let (version, from) = if path.is_dir() {
            let release = release(&path)?;
            (LinuxVersion::of_release(&release), From::Tree(path))
        } else {
            (version_in_name(&path), From::Archive(path))
        };
        let version = version.map(|version| version.to_string()).or(wanted.map(str::to_owned));
        let version = version.ok_or_else(|| {
            Error::Failed(
                "--source: the archive's name does not say its version: add --version".to_owned(),
            )
        })?;
        check_version(&version)?;
        if wanted.is_some_and(|wanted| wanted != version) {
            return Err(Error::Failed(format!(
                "--source is Linux {version}: leave --version out, or name another source"
            )));
        }
        Ok(Source { version, from })
    }

    /// Returns what identifies the source: an archive's bytes, a tree's path.
    fn identity(&self) -> Result<String, Error> {
        Ok(match &self.from {
            From::Tree(path) => format!("tree {}", path.display()),
            From::Archive(path) => {
                let bytes = fs::read(path).map_err(failed(path.display()))?;
                format!("archive {}", sha256(&[&bytes]))
            }
            From::Package(package) => format!("package {package}"),
        })
    }
}

/// Reads the version from a file name: 6.1 from linux-source-6.1.tar.xz or linux-6.1.192.tar.gz.
fn version_in_name(path: &Path) -> Option<LinuxVersion> {
    let name = path.file_name()?.to_str()?;
    LinuxVersion::of_release(&name[name.find(|c: char| c.is_ascii_digit())?..])
}

/// Reads the release, such as 6.1.192, from the tree's Makefile.
fn release(tree: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(tree.join("Makefile")).unwrap_or_default();
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let parts = ["VERSION", "PATCHLEVEL", "SUBLEVEL"].map(value);
    match parts {
        [Some(version), Some(patchlevel), Some(sublevel)] if tree.join("arch/um").is_dir() => {
            Ok(format!("{version}.{patchlevel}.{sublevel}"))
        }
        _ => Err(Error::Failed(format!(
            "{} is no source tree of Linux: name the folder with its top Makefile",
            tree.display()
        ))),
    }
}

struct Step {
    directory: PathBuf,
    log: PathBuf,
    hz: u32,
    jobs: usize,
}

impl Step {
    fn tree(&self) -> PathBuf {
        self.directory.join(TREE)
    }

    fn run(
        &self,
        what: &str,
        directory: &Path,
        program: &str,
        arguments: &[&str],
    ) -> Result<(), Error> {
        tools::run(what, directory, program, arguments, &self.log)
    }

    /// Checks the disk space before the build, because a full disk leaves a tree that is hard to continue with.
    fn check_room(&self) -> Result<(), Error> {
        let system = rustix::fs::statvfs(&self.directory).map_err(failed("the cache"))?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        if free >= NEEDED_BYTES || self.tree().exists() {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "{}: a build takes {} GB, and {:.1} GB are free: make room, or set XDG_CACHE_HOME to another disk",
            self.directory.display(),
            NEEDED_BYTES >> 30,
            free as f64 / f64::from(1 << 30)
        )))
    }

    /// Unpacks the source into a tree of our own. The tree gets its final name when it is complete.
    fn unpack(&self, source: &Source, tell: &mut dyn FnMut(&str)) -> Result<(), Error> {
        if self.tree().exists() {
            return Ok(());
        }
        let new = self.directory.join("new");
        if new.exists() {
            knee_files::remove_tree(&new).map_err(failed(new.display()))?;
        }
        knee_files::make_dir(&new).map_err(failed(new.display()))?;
        let top = match &source.from {
            From::Tree(tree) => {
                tell(&format!("copying {}", tree.display()));
                let tree = format!("{}/.", tree.display());
                self.run(
                    "copying the source",
                    &new,
                    "cp",
                    &["-rP", "--preserve=timestamps", &tree, "."],
                )?;
                new
            }
            From::Archive(archive) => self.unpack_archive(archive, &new, tell)?,
            From::Package(package) => {
                tell(&format!("getting the package {package}"));
                let what = format!("{package}: cannot be had (\"apt-get update\", or --source)");
                self.run(&what, &new, "apt-get", &["download", package])?;
                let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
                let file = one_in(&new, is_package)?;
                let file = file.to_string_lossy();
                self.run("unpacking the package", &new, "dpkg-deb", &["-x", &file, "package"])?;
                let archives = new.join("package/usr/src");
                let is_archive = |path: &PathBuf| path.to_string_lossy().contains(".tar.");
                let archive = one_in(&archives, is_archive)?;
                self.unpack_archive(&archive, &new, tell)?
            }
        };
        knee_files::rename(&top, &self.tree()).map_err(failed("the source tree"))?;
        match knee_files::remove_tree(&self.directory.join("new")) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(failed("the cache")(why)),
            _ => Ok(()),
        }
    }

    fn unpack_archive(
        &self,
        archive: &Path,
        new: &Path,
        tell: &mut dyn FnMut(&str),
    ) -> Result<PathBuf, Error> {
        tell(&format!("unpacking {}", archive.display()));
        let to = new.join("archive");
        knee_files::make_dir(&to).map_err(failed(to.display()))?;
        let path = archive.to_string_lossy();
        self.run(
            "unpacking the source",
            &to,
            "tar",
            &["--no-same-owner", "--no-same-permissions", "-xf", &path],
        )?;
        one_in(&to, |path| path.is_dir())
    }

    fn patch(&self, version: &str, release: &str, tell: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let tree = self.tree();
        let done = self.directory.join(PATCHED);
        let stamp: String = parts::patches(version).map(|(_, text)| text).collect();
        let before = fs::read_to_string(&done).unwrap_or_default();
        if before == stamp {
            return Ok(());
        }
        // Patches added since the last build go into the same tree.
        if !stamp.starts_with(&before) {
            return Err(Error::Failed(format!(
                "{} has patches of another knee: remove it, and build again",
                self.directory.display()
            )));
        }
        tell("patching arch/um");
        let file = self.directory.join("patch");
        for (name, text) in parts::patches(version) {
            knee_files::write(&file, text).map_err(failed(file.display()))?;
            let path = file.to_string_lossy();
            let apply = ["-p1", "--force", "--forward", "-i", &*path, "--dry-run"];
            let what = format!(
                "the patch {version}/{name} does not fit Linux {release} (another source, as Debian's linux-source-{version}, may fit)"
            );
            // An interrupted build may have applied a patch without recording it.
            let reverse = ["-p1", "--force", "--reverse", "--dry-run", "-i", &path];
            if self.run(&what, &tree, "patch", &reverse).is_ok() {
                continue;
            }
            self.run(&what, &tree, "patch", &apply)?;
            self.run(&what, &tree, "patch", &apply[..5])?;
        }
        knee_files::write(&done, stamp).map_err(failed(done.display()))
    }

    /// Adds the algorithms, with the script that adds them to any tree, the devices, and the option for DIM.
    fn add_ours(&self) -> Result<(), Error> {
        let ours = self.directory.join(OURS);
        if ours.exists() {
            knee_files::remove_tree(&ours).map_err(failed(ours.display()))?;
        }
        for (path, text) in parts::ALGORITHMS {
            write_if_new(&ours.join(path), text)?;
        }
        let tree = self.tree();
        let script = ours.join("scripts/builtin-kernel");
        let arguments = [script.to_string_lossy(), tree.to_string_lossy()];
        self.run("the algorithms", &tree, "bash", &[&*arguments[0], &*arguments[1]])?;
        let kconfig = tree.join("drivers/net/Kconfig");
        let mut text = fs::read_to_string(&kconfig).map_err(failed(kconfig.display()))?;
        if !text.contains("config KNEE_NIC") {
            text.push_str(DIM_OPTION);
            write_if_new(&kconfig, &text)?;
        }
        let makefile = tree.join("drivers/net/Makefile");
        let mut text = fs::read_to_string(&makefile).map_err(failed(makefile.display()))?;
        for (name, source) in parts::DEVICES {
            write_if_new(&tree.join("drivers/net").join(name), source)?;
            let Some(name) = name.strip_suffix(".c") else { continue };
            let line = format!("\nobj-y += {name}.o\n");
            if !text.contains(&line) {
                text.push_str(&line);
            }
        }
        write_if_new(&makefile, &text)
    }

    fn configure(&self, tell: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let config = self.directory.join("config");
        let done = self.tree().join(".config");
        let wanted = parts::config(self.hz);
        if fs::read_to_string(&config).is_ok_and(|before| before == wanted) && done.exists() {
            return Ok(());
        }
        tell("configuring");
        write_if_new(&config, &wanted)?;
        let all = format!("KCONFIG_ALLCONFIG={}", config.display());
        self.run("the configuration", &self.tree(), "make", &["ARCH=um", &all, "allnoconfig"])?;
        let text = fs::read_to_string(&done).map_err(failed(done.display()))?;
        let missing = |line: &&str| {
            line.starts_with("CONFIG_")
                && !NOT_IN_ALL.contains(line)
                && !text.lines().any(|other| other == *line)
        };
        match wanted.lines().find(missing) {
            None => Ok(()),
            Some(line) => {
                // Without the configuration file, the next build checks it again.
                knee_files::remove_file(&config).map_err(failed(config.display()))?;
                Err(Error::Failed(format!(
                    "this tree does not take {line}: name another source with --source"
                )))
            }
        }
    }

    fn make_kernel(&self) -> Result<(), Error> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = format!("-j{}", if self.jobs == 0 { cores } else { self.jobs });
        // The build contains no time, place, user or build count, because a guest's entropy depends on them too.
        let fixed = [
            "KBUILD_BUILD_VERSION=1",
            "KBUILD_BUILD_TIMESTAMP=1970-01-01",
            "KBUILD_BUILD_USER=knee",
            "KBUILD_BUILD_HOST=knee",
        ];
        let arguments = [&["ARCH=um", &jobs], &fixed[..], &["linux", "modules"]].concat();
        self.run("the kernel", &self.tree(), "make", &arguments)
    }

    fn finish(&self, version: &str, release: &str) -> Result<Built, Error> {
        // The file of a running kernel cannot be written, but it can be replaced.
        let linux = self.directory.join("linux");
        let new = self.directory.join("linux.new");
        knee_files::copy(&self.tree().join("linux"), &new).map_err(failed(new.display()))?;
        knee_files::rename(&new, &linux).map_err(failed(linux.display()))?;
        let hash = |path: PathBuf| {
            let bytes = fs::read(&path).map_err(failed(path.display()))?;
            Ok::<_, Error>(sha256(&[&bytes]))
        };
        let built = Built {
            directory: self.directory.clone(),
            version: version.to_owned(),
            release: release.to_owned(),
            hz: self.hz,
            inputs: parts::inputs(version, self.hz),
            linux_sha256: hash(linux)?,
        };
        built.write()?;
        Ok(built)
    }
}

/// Returns whether the tree of a built kernel still exists.
pub(crate) fn is_tree(kernel: &Built) -> bool {
    kernel.directory.join(TREE).join("Module.symvers").is_file()
}

/// Builds the modules of a folder for a kernel. `file` is their source. Its compiler has the same bounds as the
/// simulator's, and may include headers of the kernel and of the folder. The build must list its includes (`-H`).
///
/// # Errors
/// Fails with the compiler's message, with the bound that ended the compiler, or with a header that the file may not
/// include.
pub(crate) fn make_module(
    kernel: &Built,
    file: &Path,
    folder: &Path,
    log: &Path,
) -> Result<(), Error> {
    let what = format!("{} as a module of Linux {}", file.display(), kernel.release);
    let tree = kernel.directory.join(TREE);
    let mut make = Command::new("make");
    make.current_dir(&tree);
    // The kernel's Makefile unsets `LC_ALL`. The compilers' messages are parsed, so they must not be translated.
    make.envs([("LC_ALL", "C"), ("LANG", "C"), ("LC_MESSAGES", "C"), ("LC_CTYPE", "C")]);
    make.args(["ARCH=um", &format!("M={}", folder.display()), "modules"]);
    let room = Room::default().running(&tree).writing(folder);
    let ran = bounded::run(&mut make, None, bounded::MOST_PREPROCESSED, &room)
        .map_err(failed(format!("{what}: make does not start")))?;
    // Refused includes are reported before any message that would show the file's text.
    let refused = |why: String| Error::Failed(format!("{}: {why}", file.display()));
    // From 6.13 on, make changes to the module's folder before it compiles.
    let is_newer = LinuxVersion::of_release(&kernel.release) >= Some(LinuxVersion(6, 13));
    let ran_in = if is_newer { folder } else { &*tree };
    Includes::new(&tree, [folder]).check(&ran.stderr, ran_in).map_err(refused)?;
    match (ran.is_done, ran.limit) {
        (true, _) => Ok(()),
        (false, Some(limit)) => Err(refused(limit)),
        (false, None) => {
            let said = bounded::without_list(&ran.stderr);
            let all = [&*String::from_utf8_lossy(&ran.stdout), &said].concat();
            knee_files::write(log, all).map_err(failed(log.display()))?;
            let (why, log) = (tools::reason(&said), log.display());
            Err(Error::Failed(format!("{what}: {why} (all of it is in {log})")))
        }
    }
}

/// Returns the only entry of a folder that `is_it` accepts.
fn one_in(folder: &Path, is_it: impl Fn(&PathBuf) -> bool) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder).map_err(failed(folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let found: Vec<PathBuf> = paths.filter(is_it).collect();
    match <[PathBuf; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(_) => Err(Error::Failed(format!("{}: holds no source of Linux", folder.display()))),
    }
}

/// Writes a file only if its text changed, because make would rebuild it otherwise.
fn write_if_new(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        knee_files::Dir::make_all(folder).map_err(failed(folder.display()))?;
    }
    knee_files::write(path, text).map_err(failed(path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_names() {
        let of = |name: &str| version_in_name(Path::new(name));
        assert_eq!(of("/x2/linux-source-6.1.tar.xz"), Some(LinuxVersion(6, 1)));
        assert_eq!(of("linux-6.12.117.tar.gz"), Some(LinuxVersion(6, 12)));
        assert_eq!(of("linux.tar"), None);
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let why = release(Path::new("/proc")).unwrap_err().to_string();
        assert!(why.starts_with("/proc is no source tree of Linux"), "{why}");
        let options = Options { source: Some("/no/such/file".into()), ..Options::default() };
        let why = Source::find(&options).err().unwrap().to_string();
        assert!(why.starts_with("--source /no/such/file: "), "{why}");
    }
}
