//! Writing IPv6 flow labels on behalf of algorithms (PLB): `programs/label.bpf.c` runs at the
//! egress of devices.
//!
//! All state is in the kernel. A device whose labels are [kept](Host::keep_labels) has a pinned
//! link; one whose labels are [held](Host::hold_labels) has a link that ends with its process.
//! Either link comes before all other programs and filters of the host at that device, and leaves
//! the packet's fate to them.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use knee_netns::FoundNamespace;
use knee_units::LinuxVersion;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{ErrorKind, Link, Object, OpenObject};
use rustix::net::{AddressFamily, SocketType};

use crate::host::{Host, boot_ns, check_rights, cookie_of, link_of, pin_link, proc};
use crate::load::{open_object, with_log};
use crate::{Error, KernelApi, program, shared_maps};

/// The program's name, in the object and in the kernel.
const PROGRAM: &str = "knee_label";
/// The directory of the pins, below knee's. Its name is longer than an algorithm's name can be.
const PINS: &str = "labels_at_devices";
/// The first version of Linux with links of programs at devices (TCX).
const LINKS_SINCE: LinuxVersion = LinuxVersion(6, 6);
/// The most programs that are read at one device; the kernel allows fewer.
const PROGRAMS_MAX: usize = 64;

/// A device where labels are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelsAt {
    /// The display name of its network namespace.
    pub namespace: String,
    /// The device's name.
    pub device: String,
    /// Whether labels are written until someone removes them; otherwise a process holds them.
    pub kept: bool,
    /// The visible processes (number and name) that hold it, if it is not kept.
    pub holders: Vec<(u32, String)>,
    /// The cookie of its namespace; `None` if no namespace that can be read has the device.
    netns_cookie: Option<u64>,
    link_id: u32,
}

/// The devices where labels are written, as far as this process can see.
#[derive(Clone, Debug, Default)]
pub struct LabelsSeen {
    /// The devices.
    pub at: Vec<LabelsAt>,
    /// Namespaces that could not be read, and why.
    pub unknown: Vec<(String, String)>,
}

/// The result of removing labels.
#[derive(Debug, Default)]
pub struct LabelsDropped {
    /// The devices where labels are no longer written.
    pub at: Vec<LabelsAt>,
    /// The devices left alone, because a process holds the labels: they end with it.
    pub held: Vec<LabelsAt>,
    /// The devices where removal failed, and why.
    pub failed: Vec<(String, Error)>,
}

/// The result of keeping labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Labels are newly written.
    New,
    /// A process held the labels, which are now kept.
    TakenOver,
    /// Labels were kept before.
    Already,
}

/// Labels at a device. They are written until this value is dropped or its process ends.
pub struct Labels {
    _link: OwnedFd,
    _object: Object,
    pin: PathBuf,
}

impl Labels {
    /// Whether another command has kept the labels meanwhile. Then they stay when this value is
    /// dropped.
    pub fn are_kept(&self) -> bool {
        self.pin.exists()
    }
}

impl Host {
    /// Writes labels at `device` of this namespace until they are [taken away](Host::drop_labels).
    ///
    /// # Errors
    /// [`Error::Labels`] if there is no such device or it has no Ethernet frames, [`Error::Lacks`],
    /// [`Error::NoBpffs`], [`Error::Locked`], and the errors of loading and pinning.
    pub fn keep_labels(&self, device: &str) -> Result<Kept, Error> {
        check_rights("writing labels")?;
        let index = ethernet_device(device)?;
        let lock = self.lock()?;
        let pins = self.need_pins(&lock)?.join(PINS);
        let there = links_at(index)?;
        if there.iter().any(|id| pins.join(pin_name(*id)).exists()) {
            return Ok(Kept::Already);
        }
        let object = load(0)?;
        self.make_pin_dir(&pins)?;
        let kept = keep(&object, index, there.first().copied(), &pins);
        if kept.is_err() {
            remove_if_empty(&pins);
        }
        kept
    }

    /// Writes labels at `device` of this namespace for at most `time`, and only while the returned
    /// value lives.
    ///
    /// # Errors
    /// The errors of [`Host::keep_labels`], except that no BPF file system is needed;
    /// [`Error::Labels`] where labels are written already.
    pub fn hold_labels(&self, device: &str, time: Duration) -> Result<Labels, Error> {
        check_rights("writing labels")?;
        let index = ethernet_device(device)?;
        let _lock = self.lock()?;
        if !links_at(index)?.is_empty() {
            let what = format!("labels are written at {device} already: see knee plb show");
            return Err(Error::Labels { what });
        }
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let object = load(boot_ns().saturating_add(time_ns))?;
        let link = attach(&object, index)?;
        let pin = self.label_pins()?.join(pin_name(seen(link.as_fd())?.id));
        Ok(Labels { _link: link, _object: object, pin })
    }

    /// Lists the devices where labels are written, in all namespaces. A namespace that cannot be
    /// read does not hide the others.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::Read`].
    pub fn labels(&self) -> Result<LabelsSeen, Error> {
        check_rights("looking at devices")?;
        let mut all = LabelsSeen::default();
        if !KernelApi::running().tcx {
            return Ok(all);
        }
        let pinned = pinned(&self.label_pins()?)?;
        for namespace in knee_netns::all().map_err(proc)? {
            match labels_in(&namespace) {
                Ok(found) => all.at.extend(found),
                Err(error) => all.unknown.push((namespace.label(), error.to_string())),
            }
        }
        for at in &mut all.at {
            // A device that moved to another namespace takes its link along.
            at.kept = pinned.iter().any(|pin| pin.link_id == at.link_id);
        }
        for pin in pinned.iter().filter(|pin| pin.device != 0) {
            if all.at.iter().all(|at| at.link_id != pin.link_id) {
                all.at.push(pin.out_of_sight());
            }
        }
        let mut holders = match all.at.iter().all(|at| at.kept) {
            true => BTreeMap::new(),
            false => holders(),
        };
        for at in all.at.iter_mut().filter(|at| !at.kept) {
            at.holders = holders.remove(&at.link_id).unwrap_or_default();
        }
        Ok(all)
    }

    /// Stops labels at `device` of this namespace, whoever holds them. Without `device` it stops
    /// all labels that are kept, in whatever namespace the device now is. It also removes the pins
    /// of devices that no longer exist. A failure at one device does not stop the rest.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Inspect`], [`Error::Labels`] if no labels are written at
    /// `device`.
    pub fn drop_labels(&self, device: Option<&str>) -> Result<LabelsDropped, Error> {
        check_rights("taking labels away")?;
        let pins = self.label_pins()?;
        if self.labels()?.at.is_empty() && !pins.exists() && device.is_none() {
            return Ok(LabelsDropped::default());
        }
        let _lock = self.lock()?;
        // This read is under the lock, so it sees labels that another command has kept meanwhile.
        let all = self.labels()?;
        let here = cookie_of(&knee_netns::current().map_err(proc)?)?;
        let is_wanted = |at: &LabelsAt| match device {
            Some(device) => at.device == device && at.netns_cookie == Some(here),
            None => at.kept,
        };
        let (wanted, others): (Vec<_>, Vec<_>) = all.at.into_iter().partition(is_wanted);
        if let (Some(device), true) = (device, wanted.is_empty()) {
            let what = match all.unknown.first() {
                Some((namespace, why)) => format!(
                    "whether labels are written at {device} is not known, as {namespace} cannot be examined: {why}"
                ),
                None => format!("no labels are written at {device}: see knee plb show"),
            };
            return Err(Error::Labels { what });
        }
        let mut done = LabelsDropped::default();
        for at in wanted {
            match detach(at.link_id) {
                Ok(()) => done.at.push(at),
                Err(error) => {
                    done.failed.push((format!("{} ({})", at.device, at.namespace), error))
                }
            }
        }
        if device.is_none() {
            done.held = others;
        }
        for pin in pinned(&pins)?.into_iter().filter(|pin| pin.device == 0) {
            if let Err(error) = remove(&pin.path) {
                done.failed.push((pin.path.display().to_string(), error));
            }
        }
        remove_if_empty(&pins);
        Ok(done)
    }

    /// The directory of the pinned links; an empty path without a BPF file system.
    fn label_pins(&self) -> Result<PathBuf, Error> {
        match self.pins() {
            Ok(pins) => Ok(pins.join(PINS)),
            Err(Error::NoBpffs | Error::NotBpffs { .. }) => Ok(PathBuf::default()),
            Err(error) => Err(error),
        }
    }
}

/// A link below [`PINS`].
struct Pinned {
    path: PathBuf,
    link_id: u32,
    /// The number of its device; 0 if the device is gone or the link was detached.
    device: u32,
}

impl Pinned {
    /// The entry of a device in a namespace that cannot be read.
    fn out_of_sight(&self) -> LabelsAt {
        LabelsAt {
            namespace: "a namespace out of sight".to_owned(),
            device: format!("device {}", self.device),
            kept: true,
            holders: Vec::new(),
            netns_cookie: None,
            link_id: self.link_id,
        }
    }
}

/// All pinned links. Those that disappear meanwhile are left out.
fn pinned(pins: &Path) -> Result<Vec<Pinned>, Error> {
    let mut all = Vec::new();
    for path in pins_in(pins) {
        let (link, _) = with_log(|| Link::open(&path));
        let link = match link {
            Ok(link) => link,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(source) => return Err(Error::Pin { path, source }),
        };
        let LinkSeen { id, device } = seen(link.as_fd())?;
        all.push(Pinned { path, link_id: id, device });
    }
    Ok(all)
}

fn labels_in(namespace: &FoundNamespace) -> Result<Vec<LabelsAt>, Error> {
    let netns_cookie = Some(cookie_of(namespace)?);
    let mut all = Vec::new();
    for (index, device) in devices(namespace)? {
        for link_id in namespace.run(move || links_at(index)).map_err(proc)?? {
            all.push(LabelsAt {
                namespace: namespace.label(),
                device: device.clone(),
                kept: false,
                holders: Vec::new(),
                netns_cookie,
                link_id,
            });
        }
    }
    Ok(all)
}

/// The processes (number and name) that have links open, by the links' numbers. Processes whose
/// files are not visible are missing.
fn holders() -> BTreeMap<u32, Vec<(u32, String)>> {
    let mut all: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
    for process in entries_of(Path::new("/proc")) {
        let number = process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        let Some(number) = number else { continue };
        for file in entries_of(&process.join("fd")) {
            let is_link = fs::read_link(&file).is_ok_and(|to| to.ends_with("anon_inode:bpf_link"));
            let name = file.file_name().filter(|_| is_link);
            let info = name.map(|name| fs::read_to_string(process.join("fdinfo").join(name)));
            let Some(Ok(info)) = info else { continue };
            let id =
                info.lines().find_map(|line| line.strip_prefix("link_id:")?.trim().parse().ok());
            let Some(id) = id else { continue };
            let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
            // The process's owner chooses its name, which may hold control characters.
            let holder = (number, command.trim().replace(char::is_control, "?"));
            let of_link = all.entry(id).or_default();
            if !of_link.contains(&holder) {
                of_link.push(holder);
            }
        }
    }
    all
}

/// Attaches and pins the link, or keeps the one that is there. Two links at one device would undo
/// each other, so a new one is attached only if there is none.
fn keep(object: &Object, index: u32, there: Option<u32>, pins: &Path) -> Result<Kept, Error> {
    let held = there.map(open_link).transpose()?.flatten();
    let Some(link) = held else {
        let link = attach(object, index)?;
        pin_as(&link, &pins.join(pin_name(seen(link.as_fd())?.id)))?;
        return Ok(Kept::New);
    };
    take_over(&link, object, pins)?;
    Ok(Kept::TakenOver)
}

/// Pins the link that a process holds, and replaces its program by one without a deadline. Only
/// then does the pin get the name that the process looks for. On any failure the deadline stays as
/// it was.
fn take_over(link: &OwnedFd, object: &Object, pins: &Path) -> Result<(), Error> {
    let name = pin_name(seen(link.as_fd())?.id);
    let (unfinished, pin) = (pins.join(format!("{name}-unfinished")), pins.join(name));
    // An interrupted command left it.
    remove(&unfinished)?;
    pin_as(link, &unfinished)?;
    let finished = replace(link, object).and_then(|()| {
        fs::rename(&unfinished, &pin).map_err(|source| Error::File { path: pin, source })
    });
    if finished.is_err() {
        let _ = remove(&unfinished);
    }
    finished
}

fn pin_as(link: &OwnedFd, pin: &Path) -> Result<(), Error> {
    pin_link(link, pin).map_err(|source| Error::Pin { path: pin.to_owned(), source })
}

/// Opens the link of this number; `None` if it is gone.
fn open_link(id: u32) -> Result<Option<OwnedFd>, Error> {
    match link_of(id) {
        Ok(link) => Ok(Some(link)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { what: "the link of a program at a device", source }),
    }
}

/// Detaches the link of this number. A link that is gone needs no work.
fn detach(id: u32) -> Result<(), Error> {
    let Some(link) = open_link(id)? else { return Ok(()) };
    // SAFETY: the descriptor is open.
    match unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) } {
        0 => Ok(()),
        error => Err(Error::Inspect {
            what: "the link of a program at a device",
            source: libbpf_rs::Error::from_raw_os_error(-error),
        }),
    }
}

fn refused(source: libbpf_rs::Error, log: String) -> Error {
    Error::Load { algorithm: "the program that writes labels".to_owned(), source, log }
}

/// Loads the program into the kernel, attached to no device.
fn load(deadline_boot_ns: u64) -> Result<Object, Error> {
    let api = KernelApi::running();
    if !api.tcx {
        return Err(Error::Lacks {
            algorithm: "writing labels".to_owned(),
            what: "links of programs at devices".to_owned(),
            since: LINKS_SINCE,
            release: api.release.clone(),
        });
    }
    let bytes = program("label")?;
    let open = || {
        let (opened, log) = with_log(|| open_object(bytes));
        let mut open = opened.map_err(|source| refused(source, log))?;
        let mut map = open.maps_mut().find(|map| map.name() == ".rodata.label");
        let settings = map.as_mut().and_then(|map| map.initial_value_mut()).unwrap_or(&mut []);
        if settings.len() != size_of::<u64>() {
            return Err(not_ours());
        }
        settings.copy_from_slice(&deadline_boot_ns.to_ne_bytes());
        Ok(open)
    };
    let load = |open: OpenObject| {
        let (loaded, log) = with_log(|| open.load());
        loaded.map_err(|source| refused(source, log))
    };
    shared_maps::load(open, load)
}

fn not_ours() -> Error {
    let what = "the object that writes labels is not the one this library was made for";
    Error::BadObject { what: what.into() }
}

/// Attaches the program before all others: the kernel skips everything behind a program that lets a
/// packet pass.
fn attach(object: &Object, index: u32) -> Result<OwnedFd, Error> {
    let program = object.progs().find(|program| program.name() == PROGRAM).ok_or_else(not_ours)?;
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: the program's descriptor is open, and the options live during the call.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_fd().as_raw_fd(),
            index as i32,
            libbpf_sys::BPF_TCX_EGRESS,
            &raw const options,
        )
    };
    if fd < 0 {
        let source = libbpf_rs::Error::from_raw_os_error(-fd);
        return Err(Error::Inspect { what: "the device to write labels at", source });
    }
    // SAFETY: the descriptor was just opened, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn replace(link: &OwnedFd, object: &Object) -> Result<(), Error> {
    let program = object.progs().find(|program| program.name() == PROGRAM).ok_or_else(not_ours)?;
    let (link, program) = (link.as_raw_fd(), program.as_fd().as_raw_fd());
    // SAFETY: both descriptors are open, and no options are given.
    let result = unsafe { libbpf_sys::bpf_link_update(link, program, std::ptr::null()) };
    match result {
        0 => Ok(()),
        error => Err(Error::Inspect {
            what: "the link that a process holds",
            source: libbpf_rs::Error::from_raw_os_error(-error),
        }),
    }
}

/// The numbers of this program's links at a device of the calling thread's namespace.
fn links_at(index: u32) -> Result<Vec<u32>, Error> {
    let (mut programs, mut links) = ([0_u32; PROGRAMS_MAX], [0_u32; PROGRAMS_MAX]);
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = PROGRAMS_MAX as u32;
    // SAFETY: the options and the arrays, whose length they state, live during the call.
    let result = unsafe {
        libbpf_sys::bpf_prog_query_opts(index as i32, libbpf_sys::BPF_TCX_EGRESS, &raw mut options)
    };
    match -result {
        0 => {}
        // The device disappeared meanwhile, or never had a program.
        libc::ENODEV | libc::ENOENT => return Ok(Vec::new()),
        error => {
            let source = libbpf_rs::Error::from_raw_os_error(error);
            return Err(Error::Inspect { what: "the programs of a device", source });
        }
    }
    // SAFETY: all fields of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    let ours: Vec<u32> = programs
        .iter()
        .zip(&links)
        .take(count)
        .filter(|(program, _)| is_ours(**program))
        .map(|(_, link)| *link)
        .collect();
    Ok(ours)
}

fn is_ours(program: u32) -> bool {
    let mut programs = ProgInfoIter::default();
    programs.any(|info| info.id == program && info.name.as_bytes() == PROGRAM.as_bytes())
}

/// The kernel's information about a link at a device.
struct LinkSeen {
    id: u32,
    /// The device's number; 0 if the device is gone or the link was detached.
    device: u32,
}

fn seen(link: BorrowedFd<'_>) -> Result<LinkSeen, Error> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut len = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: the pointers are to the struct and its length.
    let result = unsafe {
        libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut len)
    };
    match result {
        // SAFETY: the link is one of a program at a device, for which the kernel fills this part.
        0 => Ok(LinkSeen { id: info.id, device: unsafe { info.__bindgen_anon_1.tcx.ifindex } }),
        error => Err(Error::Inspect {
            what: "the link of a program at a device",
            source: libbpf_rs::Error::from_raw_os_error(-error),
        }),
    }
}

/// The name of a link's pin. It contains the link's number, which stays when the device moves to
/// another namespace and gets another number. It has no dot: the BPF file system refuses dots.
fn pin_name(link_id: u32) -> String {
    link_id.to_string()
}

fn pins_in(pins: &Path) -> Vec<PathBuf> {
    // Without a BPF file system the path is empty.
    if pins.as_os_str().is_empty() { Vec::new() } else { entries_of(pins) }
}

/// The entries of a directory; empty if it is gone by now.
fn entries_of(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Removes the directories if they are empty.
fn remove_if_empty(pins: &Path) {
    let _ = fs::remove_dir(pins);
    let _ = pins.parent().map(fs::remove_dir);
}

fn remove(pin: &Path) -> Result<(), Error> {
    match fs::remove_file(pin) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { path: pin.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// The numbers and names of a namespace's devices.
fn devices(namespace: &FoundNamespace) -> Result<Vec<(u32, String)>, Error> {
    let read = || {
        // SAFETY: the call only reads; the list is freed below.
        let list = unsafe { libc::if_nameindex() };
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut devices = Vec::new();
        let mut entry = list;
        // SAFETY: the list ends with an entry whose name is null; names are C strings.
        unsafe {
            while !(*entry).if_name.is_null() {
                let name = CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned();
                devices.push(((*entry).if_index, name));
                entry = entry.add(1);
            }
            libc::if_freenameindex(list);
        }
        Ok(devices)
    };
    let read = namespace.run(read).map_err(proc)?;
    read.map_err(|source| Error::Read { what: "the devices of a network namespace", source })
}

/// The number of a device of the calling thread's namespace whose packets begin with an Ethernet
/// header.
fn ethernet_device(device: &str) -> Result<u32, Error> {
    let refuse = |what: String| Err(Error::Labels { what });
    let shown = device.escape_debug();
    let no_device =
        || format!("there is no device \"{shown}\" in this network namespace: see ip link");
    let Ok(name) = CString::new(device) else { return refuse(no_device()) };
    // SAFETY: the name is a C string, and the call only reads.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 || name.as_bytes().len() >= libc::IFNAMSIZ {
        return refuse(no_device());
    }
    let failed = |source| Error::Read { what: "the kind of a device", source };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    let socket = socket.map_err(|errno| failed(errno.into()))?;
    // SAFETY: all zeros is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(OsStr::new(device).as_bytes()) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the request holds a name that ends with a zero, and lives during the call.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) };
    if result != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    // SAFETY: the kernel wrote the hardware address, whose family is the kind of device.
    match unsafe { request.ifr_ifru.ifru_hwaddr.sa_family } {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(index),
        kind => refuse(format!(
            "\"{shown}\" carries no Ethernet frames (its type is {kind}): name the device below it"
        )),
    }
}
