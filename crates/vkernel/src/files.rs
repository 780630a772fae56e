//! Algorithms from users' own files in a guest's kernel. Each file is built as a module against the kernel's tree,
//! once per content. The guest loads it before it does anything else.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use knee_algo::module::bounded::{self, Includes};
use knee_run::spec::Cc;

use crate::Error;
use crate::error::failed;
use crate::kernel::{Built, is_tree, make_module, ours, sha256};

/// Folder of built modules within a kernel's directory.
const KEPT: &str = "files";
/// Bounds on the headers beside a file: their number, and the bytes of each.
const MOST_HEADERS: usize = 100;
const MOST_HEADER_BYTES: u64 = 4 << 20;

/// An algorithm's file that a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    /// The path as the user gave it.
    pub path: PathBuf,
    text: &'static str,
    /// Whether the file is the source of a Linux module. Otherwise it uses knee's algorithm contract.
    is_kernel_module: bool,
    /// The algorithm's name in the guest's kernel.
    pub name: String,
    /// Module parameters in the syntax of `insmod`.
    pub parameters: String,
}

impl OwnFile {
    /// Returns the file of an algorithm, or `None` if the algorithm comes from no file. `number` keeps names within
    /// the run apart.
    pub(crate) fn of(cc: &Cc, number: usize) -> Option<OwnFile> {
        let module = cc.algorithm.module()?;
        let is_kernel_module = module.is_kernel_module();
        // The prefix tells the kernel which algorithms report their internal state (`kernel/knee_inside.c`).
        let name = match is_kernel_module {
            true => format!("file{number}"),
            false => format!("knee_file{number}"),
        };
        let mut parameters = format!("knee_name={name}");
        let default = cc.algorithm.default_params();
        let values = cc.params.values().iter().zip(default.values());
        for (info, (value, default)) in cc.algorithm.params().iter().zip(values) {
            if value != default && info.is_signed {
                let _ = write!(parameters, " {}={}", info.name, *value as i32);
            } else if value != default {
                let _ = write!(parameters, " {}={value}", info.name);
            }
        }
        let (path, text) = (module.path().to_owned(), cc.algorithm.text());
        Some(OwnFile { path, text, is_kernel_module, name, parameters })
    }

    /// Returns the module for this kernel and builds it if needed.
    ///
    /// # Errors
    /// Fails if the file is wrong, with the compiler's message, or if it cannot be built.
    pub(crate) fn module(&self, kernel: &Built) -> Result<Vec<u8>, Error> {
        let (headers, refused) = self.headers()?;
        let source = self.source();
        let parts = headers.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_slice()]);
        let known = [kernel.linux_sha256.as_bytes(), kernel.inputs.as_bytes(), source.as_bytes()];
        let parts: Vec<&[u8]> = known.into_iter().chain(parts).collect();
        let name = format!("knee_{}", &sha256(&parts)[..16]);
        let folder = kernel.directory.join(KEPT);
        let kept = folder.join(format!("{name}.ko"));
        match fs::read(&kept) {
            Ok(module) => return Ok(module),
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(failed(kept.display())(why)),
        }
        if !is_tree(kernel) {
            return Err(Error::Failed(format!(
                "{}: to put a file into this kernel takes the tree that it was built in, and {} has none: run knee vkernel build",
                self.path.display(),
                kernel.directory.display()
            )));
        }
        let work = Work::new(&folder)?;
        let write = |name: &str, bytes: &[u8]| {
            let path = work.0.join(name);
            knee_files::write(&path, bytes).map_err(failed(path.display()))
        };
        for (header, text) in &headers {
            write(header, text)?;
        }
        knee_files::make_dir(&work.0.join("include")).map_err(failed(work.0.display()))?;
        for (header, text) in ours() {
            write(&format!("include/{header}"), text.as_bytes())?;
        }
        write(&format!("{name}.c"), source.as_bytes())?;
        write("Makefile", makefile(&name).as_bytes())?;
        let log = folder.join(format!("{name}.log"));
        make_module(kernel, &self.path, &work.0, &log).map_err(|why| {
            let lacks = |(name, _): &&(String, String)| why.to_string().contains(&missing(name));
            match refused.iter().find(lacks) {
                Some((_, refused)) => self.refused(refused),
                None => why,
            }
        })?;
        let module = work.0.join(format!("{name}.ko"));
        let bytes = fs::read(&module).map_err(failed(module.display()))?;
        knee_files::rename(&module, &kept).map_err(failed(kept.display()))?;
        // A successful build needs no log.
        let _ = knee_files::remove_file(&log);
        Ok(bytes)
    }

    /// Returns the file's text behind [`BEFORE`], which gives the algorithm this run's name. Another file may define
    /// the same one.
    fn source(&self) -> String {
        let shown = self.path.to_string_lossy().replace(['"', '\\', '\n'], "_");
        format!("{BEFORE}#line 1 \"{shown}\"\n{}", self.text)
    }

    fn refused(&self, why: &str) -> Error {
        Error::Failed(format!("{}: {why}", self.path.display()))
    }

    /// Returns the headers beside the file, and those that it may not include, each with the reason. The build for
    /// the simulator takes the same ones.
    fn headers(&self) -> Result<(Headers, Vec<(String, String)>), Error> {
        bounded::reads_a_file(self.text).map_or(Ok(()), |why| Err(self.refused(&why)))?;
        let beside = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let beside = beside.unwrap_or(Path::new("."));
        let includes = Includes::new(beside, [beside]);
        let entries = fs::read_dir(beside).into_iter().flatten();
        let (mut headers, mut refused) = (Vec::new(), Vec::new());
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_taken = ours().any(|(ours, _)| ours == name);
            if !name.ends_with(".h") || is_taken || !entry.path().is_file() {
                continue;
            }
            if let Err(why) = includes.check_one(&entry.path()) {
                refused.push((name, why));
                continue;
            }
            let text = knee_files::read_bounded(&entry.path(), MOST_HEADER_BYTES, "C header");
            let text =
                text.map_err(|why| Error::Failed(format!("{}: {why}", entry.path().display())))?;
            if let Some(why) = bounded::reads_a_file(&String::from_utf8_lossy(&text)) {
                refused.push((name.clone(), format!("includes {name}, which {why}")));
                continue;
            }
            headers.push((name, text));
            if headers.len() > MOST_HEADERS {
                return Err(Error::Failed(format!(
                    "{}: more than {MOST_HEADERS} headers stand beside it: move it to a directory with its own",
                    self.path.display()
                )));
            }
        }
        headers.sort();
        Ok((headers, refused))
    }
}

type Headers = Vec<(String, Vec<u8>)>;

/// The compiler's message for a missing header.
fn missing(name: &str) -> String {
    format!("{name}: No such file or directory")
}

/// Text placed before a file.
const BEFORE: &str = include_str!("../guest/knee_file.h");

fn makefile(name: &str) -> String {
    format!(
        "obj-m := {name}.o\nccflags-y := -H -I$(src)/include -I$(srctree)/net/ipv4 -Wno-missing-prototypes\n\
         ccflags-$(shell grep -q cwnd_event_tx_start $(srctree)/include/net/tcp.h && echo y) += -DCC_LINUX_TX_START\n"
    )
}

/// A build directory, removed when dropped.
struct Work(PathBuf);

impl Work {
    fn new(folder: &Path) -> Result<Work, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("work-{}-{number}", process::id()));
        // An earlier process with this number may have left the directory behind.
        let _ = knee_files::remove_tree(&path);
        knee_files::Dir::make_all(&path).map_err(failed(path.display()))?;
        Ok(Work(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = knee_files::remove_tree(&self.0);
    }
}
