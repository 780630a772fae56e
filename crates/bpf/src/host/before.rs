//! What the host was like before a load, kept in the kernel beside the algorithm itself.
//!
//! Each algorithm that `knee load` registers has a map bound to one of its programs. The map lives
//! as long as the program, so also while only a default or a socket keeps the algorithm. It holds
//! the earlier defaults of namespaces. So they can be restored without the journal, which may be
//! lost with its directory.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use knee_algo::sha256;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use crate::registry::{InKernel, in_kernel};
use crate::{Error, Registered};

/// The name of the map.
const MAP: &str = "knee_before";
/// The key of the value that names the directory of the journal. No namespace has this cookie.
const OWNER: u64 = 0;
/// Bytes of a value: an algorithm's name with its final zero, or an [`Owner`].
const VALUE_BYTES: usize = 16;
/// The largest number of namespaces whose default an algorithm can be. Memory is taken as needed.
const MOST_NAMESPACES: u32 = 1 << 16;
/// The kernel's flag of a map without memory in advance.
const BPF_F_NO_PREALLOC: u32 = 1;

/// The map of an algorithm.
pub(super) struct Before(MapHandle);

impl Before {
    /// Makes an empty map, for an algorithm that is loaded with the journal in `run_dir`.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(super) fn new(run_dir: &Path) -> Result<Before, Error> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: BPF_F_NO_PREALLOC,
            ..Default::default()
        };
        let (key, value) = (size_of::<u64>() as u32, VALUE_BYTES as u32);
        let map =
            MapHandle::create(MapType::Hash, Some(MAP), key, value, MOST_NAMESPACES, &options);
        let before = Before(map.map_err(failed)?);
        before.put(OWNER, &Owner::of(run_dir).bytes())?;
        Ok(before)
    }

    /// The map of this algorithm; `None` if it was loaded in another way.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(super) fn of(algorithm: &Registered) -> Result<Option<Before>, Error> {
        let map = algorithm.map(MAP)?;
        let is_ours = |map: &MapHandle| {
            map.map_type() == MapType::Hash
                && (map.key_size(), map.value_size()) == (8, VALUE_BYTES as u32)
        };
        Ok(map.filter(is_ours).map(Before))
    }

    /// Whether an algorithm of this name was loaded by `knee load`, with any journal.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::NotPermitted`].
    pub(super) fn is_kept_of(name: &str) -> Result<bool, Error> {
        let mut named = in_kernel()?.into_iter().filter(|one| one.algorithm.name == name);
        named.try_fold(false, |found, one| Ok(found || Before::of(&one.algorithm)?.is_some()))
    }

    /// The map to bind to the next program of this name: that of the present one, or a new one.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::NotPermitted`].
    pub(super) fn for_next(name: &str, run_dir: &Path) -> Result<Before, Error> {
        match Owned::all(run_dir)?.into_iter().find(|one| one.kernel.algorithm.name == name) {
            Some(one) => Ok(one.before),
            None => Before::new(run_dir),
        }
    }

    pub(super) fn map(&self) -> &MapHandle {
        &self.0
    }

    /// Notes the earlier default of a namespace.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(super) fn put_default(&self, netns_cookie: u64, algorithm: &str) -> Result<(), Error> {
        let mut value = [0; VALUE_BYTES];
        let len = algorithm.len().min(VALUE_BYTES - 1);
        value[..len].copy_from_slice(&algorithm.as_bytes()[..len]);
        self.put(netns_cookie, &value)
    }

    /// The earlier default of the namespace; `None` if it was not replaced.
    pub(super) fn default_of(&self, netns_cookie: u64) -> Option<String> {
        let value = self.0.lookup(&netns_cookie.to_ne_bytes(), MapFlags::ANY).ok()??;
        let name: Vec<u8> = value.into_iter().take_while(|byte| *byte != 0).collect();
        (netns_cookie != OWNER && !name.is_empty())
            .then(|| String::from_utf8_lossy(&name).into_owned())
    }

    /// The earlier default of the oldest namespace whose default was replaced.
    pub(super) fn first_default(&self) -> Option<String> {
        self.default_of(self.cookies().into_iter().min()?)
    }

    /// Corrects what names the algorithm `gone` as an earlier default: it gets the default before
    /// that one, which `kept` has.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(super) fn forget_default(&self, gone: &str, kept: &[Before]) -> Result<(), Error> {
        for cookie in self.cookies() {
            if self.default_of(cookie).is_none_or(|old| old != gone) {
                continue;
            }
            match kept.iter().find_map(|kept| kept.default_of(cookie)) {
                Some(before) => self.put_default(cookie, &before)?,
                None => self.remove(cookie)?,
            }
        }
        Ok(())
    }

    /// Removes all earlier defaults: they are restored.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(super) fn clear(&self) -> Result<(), Error> {
        self.cookies().into_iter().try_for_each(|cookie| self.remove(cookie))
    }

    fn cookies(&self) -> Vec<u64> {
        let cookie = |key: Vec<u8>| Some(u64::from_ne_bytes(key.try_into().ok()?));
        self.0.keys().filter_map(cookie).filter(|cookie| *cookie != OWNER).collect()
    }

    fn remove(&self, cookie: u64) -> Result<(), Error> {
        self.0.delete(&cookie.to_ne_bytes()).map_err(failed)
    }

    /// Whether it was made with the journal in `run_dir`.
    fn is_of(&self, run_dir: &Path) -> bool {
        let found = self.0.lookup(&OWNER.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let found = found.and_then(|found| <[u8; VALUE_BYTES]>::try_from(found).ok());
        found.is_some_and(|found| Owner::read(found).is(Owner::of(run_dir)))
    }

    fn put(&self, key: u64, value: &[u8]) -> Result<(), Error> {
        self.0.update(&key.to_ne_bytes(), value, MapFlags::ANY).map_err(failed)
    }
}

/// An algorithm that was loaded with a given journal, whether or not that journal still has it.
pub(super) struct Owned {
    pub(super) kernel: InKernel,
    pub(super) before: Before,
}

impl Owned {
    /// All algorithms in the kernel that were loaded with the journal in `run_dir`.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::NotPermitted`].
    pub(super) fn all(run_dir: &Path) -> Result<Vec<Owned>, Error> {
        let mut all = Vec::new();
        for kernel in in_kernel()? {
            let before = Before::of(&kernel.algorithm)?;
            if let Some(before) = before.filter(|before| before.is_of(run_dir)) {
                all.push(Owned { kernel, before });
            }
        }
        Ok(all)
    }
}

/// Tells journals apart. Containers may each have a `/run/knee`, and a file system may be mounted
/// anew at the same place.
#[derive(Clone, Copy)]
struct Owner {
    /// A hash of the directory's path.
    path: u32,
    /// A hash of the numbers of the directory above it.
    above: u32,
    /// The number of the mount namespace.
    mounts: u32,
}

impl Owner {
    fn of(run_dir: &Path) -> Owner {
        let above = run_dir.parent().and_then(|parent| fs::metadata(parent).ok());
        let above = above.map_or((0, 0), |above| (above.dev(), above.ino()));
        let mounts = fs::metadata("/proc/self/ns/mnt").map_or(0, |about| about.ino() as u32);
        let above = [above.0.to_ne_bytes(), above.1.to_ne_bytes()].concat();
        Owner { path: hash(run_dir.as_os_str().as_bytes()), above: hash(&above), mounts }
    }

    fn is(self, other: Owner) -> bool {
        let is_there = self.above == other.above || self.mounts == other.mounts;
        self.path == other.path && is_there
    }

    fn bytes(self) -> [u8; VALUE_BYTES] {
        let mut bytes = [0; VALUE_BYTES];
        for (place, number) in bytes.chunks_exact_mut(4).zip([self.path, self.above, self.mounts]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    fn read(bytes: [u8; VALUE_BYTES]) -> Owner {
        let mut numbers = bytes
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().expect("chunks of four have four")));
        let mut next = || numbers.next().unwrap_or_default();
        Owner { path: next(), above: next(), mounts: next() }
    }
}

/// A hash that all builds of knee share.
fn hash(bytes: &[u8]) -> u32 {
    let hex = sha256::hex(bytes);
    u32::from_str_radix(&hex[..8], 16).expect("it is a number in hexadecimal")
}

fn failed(source: libbpf_rs::Error) -> Error {
    Error::Inspect { what: "the earlier defaults, which the kernel keeps", source }
}
