//! Where IPv6 flow labels follow what algorithms ask for (PLB): `programs/label.bpf.c` at the egress of
//! devices.
//!
//! All state is in the kernel. What is [kept](Host::keep_labels) is a pinned link, what is
//! [held](Host::hold_labels) one that goes with its process. Either stands before all programs and
//! filters of the host's own at that device, and leaves the packet's fate to them.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use knee_netns::Found;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, Object, OpenObject};
use rustix::net::{AddressFamily, SocketType};

use crate::host::{Host, boot_ns, check_rights, cookie_of, link_of, pin_link, proc};
use crate::load::{open_object, with_log};
use crate::{Error, KernelApi, program, shared_maps};

/// The program's name, in the object and in the kernel.
const PROGRAM: &str = "knee_label";
/// Below what knee pins, and longer than the name of an algorithm can be.
const PINS: &str = "labels_at_devices";
/// Links of programs at devices (TCX).
const LINKS_SINCE: crate::Version = (6, 6);
/// Programs at one device; more than the kernel allows.
const PROGRAMS_MAX: usize = 64;

/// A device where labels are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelsAt {
    /// The network namespace, as people know it.
    pub namespace: String,
    /// The device's name.
    pub device: String,
    /// Until it is taken away; else a process holds it.
    pub kept: bool,
    netns_cookie: u64,
    link_id: u32,
    pin: PathBuf,
}

/// What keeping labels came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// They are written now.
    New,
    /// What a process held is kept now.
    TakenOver,
    /// They were kept before.
    Already,
}

/// Labels are written at a device until this is dropped, or its process ends in whatever way.
pub struct Labels {
    _link: OwnedFd,
    _object: Object,
    pin: PathBuf,
}

impl Labels {
    /// Whether somebody has kept them meanwhile, so that the end of this takes nothing away.
    pub fn are_kept(&self) -> bool {
        self.pin.exists()
    }
}

impl Host {
    /// Has labels written at `device` of this namespace until they are [taken away](Host::drop_labels).
    ///
    /// # Errors
    /// [`Error::Labels`] for a device that is none or has no Ethernet frames, [`Error::Lacks`],
    /// [`Error::NoBpffs`], [`Error::Locked`], and those of loading and pinning.
    pub fn keep_labels(&self, device: &str) -> Result<Kept, Error> {
        check_rights("writing labels")?;
        let pins = self.pins()?.join(PINS);
        let index = ethernet_device(device)?;
        let _lock = self.lock()?;
        let pin = pins.join(pin_name(cookie_of(&knee_netns::current().map_err(proc)?)?, index));
        let there = links_at(index)?.into_iter().next();
        if there.is_some() && pin.exists() {
            return Ok(Kept::Already);
        }
        // Of a device that is gone, whose number came back.
        let _ = fs::remove_file(&pin);
        let object = load(0)?;
        let (link, kept) = match there.map(link_of).transpose() {
            // It would end at the time that its program knows: this one knows none.
            Ok(Some(link)) => {
                replace(&link, &object)?;
                (link, Kept::TakenOver)
            }
            Ok(None) | Err(_) => (attach(&object, index)?, Kept::New),
        };
        fs::create_dir_all(&pins).map_err(|source| Error::File { path: pins, source })?;
        pin_link(&link, &pin).map_err(|source| Error::Pin { path: pin, source })?;
        Ok(kept)
    }

    /// Has labels written at `device` of this namespace for so long, if the value lives that long.
    ///
    /// # Errors
    /// As [`Host::keep_labels`], but no BPF file system is needed; [`Error::Labels`] where they are
    /// written already.
    pub fn hold_labels(&self, device: &str, time: Duration) -> Result<Labels, Error> {
        check_rights("writing labels")?;
        let index = ethernet_device(device)?;
        let name = pin_name(cookie_of(&knee_netns::current().map_err(proc)?)?, index);
        let pin = self.pins().map_or_else(|_| PathBuf::new(), |pins| pins.join(PINS).join(name));
        let _lock = self.lock()?;
        if !links_at(index)?.is_empty() {
            let what = format!("labels are written at {device} already: see knee plb show");
            return Err(Error::Labels { what });
        }
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let object = load(boot_ns().saturating_add(time_ns))?;
        Ok(Labels { _link: attach(&object, index)?, _object: object, pin })
    }

    /// Where labels are written, in all namespaces.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::Read`].
    pub fn labels(&self) -> Result<Vec<LabelsAt>, Error> {
        check_rights("looking at devices")?;
        let pins = self.pins().map_or_else(|_| PathBuf::new(), |pins| pins.join(PINS));
        let mut all = Vec::new();
        if !KernelApi::running().tcx {
            return Ok(all);
        }
        for namespace in knee_netns::all().map_err(proc)? {
            let netns_cookie = cookie_of(&namespace)?;
            for (index, device) in devices(&namespace)? {
                let found = namespace.run(move || links_at(index)).map_err(proc)??;
                for link_id in found {
                    let pin = pins.join(pin_name(netns_cookie, index));
                    let (namespace, device, kept) =
                        (namespace.label(), device.clone(), pin.exists());
                    all.push(LabelsAt { namespace, device, kept, netns_cookie, link_id, pin });
                }
            }
        }
        Ok(all)
    }

    /// Takes away what is written at `device` of this namespace, whoever has it, or all that is kept, in
    /// every namespace, and gives what that was. The pins of devices that are gone go, too.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::File`], [`Error::Labels`] if nothing is written at `device`.
    pub fn drop_labels(&self, device: Option<&str>) -> Result<Vec<LabelsAt>, Error> {
        check_rights("taking labels away")?;
        let all = self.labels()?;
        let here = cookie_of(&knee_netns::current().map_err(proc)?)?;
        let wanted = |at: &LabelsAt| match device {
            Some(device) => at.device == device && at.netns_cookie == here,
            None => at.kept,
        };
        let dropped: Vec<LabelsAt> = all.into_iter().filter(wanted).collect();
        if let (Some(device), true) = (device, dropped.is_empty()) {
            let what = format!("no labels are written at {device}: see knee plb show");
            return Err(Error::Labels { what });
        }
        let pins = self.pins().map(|pins| pins.join(PINS)).unwrap_or_default();
        if dropped.is_empty() && !pins.exists() {
            return Ok(dropped);
        }
        let _lock = self.lock()?;
        for at in &dropped {
            // One that is gone meanwhile needs nothing.
            if let Ok(link) = link_of(at.link_id) {
                // SAFETY: the descriptor is open.
                unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
            }
            remove(&at.pin)?;
        }
        for pin in pins_in(&pins) {
            let (link, _) = with_log(|| Link::open(&pin));
            let is_gone = link.ok().is_none_or(|link| !is_attached(link.as_fd()));
            if is_gone {
                remove(&pin)?;
            }
        }
        // What is left keeps them.
        let _ = fs::remove_dir(&pins);
        let _ = pins.parent().map(fs::remove_dir);
        Ok(dropped)
    }
}

fn refused(source: libbpf_rs::Error, log: String) -> Error {
    Error::Load { algorithm: "the program that writes labels".to_owned(), source, log }
}

/// Brings the program into the kernel, at no device yet.
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

/// Before all that is there: what stands behind a program that lets a packet pass is not asked.
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
    // SAFETY: it was opened a moment ago and belongs to nobody else.
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

/// The numbers of this program's links at a device of this thread's namespace.
fn links_at(index: u32) -> Result<Vec<u32>, Error> {
    let (mut programs, mut links) = ([0_u32; PROGRAMS_MAX], [0_u32; PROGRAMS_MAX]);
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = PROGRAMS_MAX as u32;
    // SAFETY: the options and the arrays, of the length stated, live during the call.
    let result = unsafe {
        libbpf_sys::bpf_prog_query_opts(index as i32, libbpf_sys::BPF_TCX_EGRESS, &raw mut options)
    };
    match -result {
        0 => {}
        // It went away meanwhile, or nothing was ever attached to it.
        libc::ENODEV | libc::ENOENT => return Ok(Vec::new()),
        error => {
            let source = libbpf_rs::Error::from_raw_os_error(error);
            return Err(Error::Inspect { what: "the programs of a device", source });
        }
    }
    // SAFETY: whichever field is meant, all of them are the same number.
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

/// A device's link has none any more when the device goes.
fn is_attached(link: BorrowedFd<'_>) -> bool {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut len = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: the pointers are to the struct and its length.
    let result = unsafe {
        libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut len)
    };
    // SAFETY: it is a link of a program at a device; the kernel wrote that part.
    result == 0 && unsafe { info.__bindgen_anon_1.tcx.ifindex } != 0
}

/// No dots: the BPF file system takes none.
fn pin_name(netns_cookie: u64, index: u32) -> String {
    format!("{netns_cookie}-{index}")
}

fn pins_in(pins: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(pins).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn remove(pin: &Path) -> Result<(), Error> {
    match fs::remove_file(pin) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { path: pin.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Numbers and names of a namespace's devices.
fn devices(namespace: &Found) -> Result<Vec<(u32, String)>, Error> {
    let read = || {
        // SAFETY: it only asks; the list is given back below.
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

/// The number of a device of this thread's namespace whose packets begin with an Ethernet header.
fn ethernet_device(device: &str) -> Result<u32, Error> {
    let refuse = |what: String| Err(Error::Labels { what });
    let shown = device.escape_debug();
    let no_device =
        || format!("there is no device \"{shown}\" in this network namespace: see ip link");
    let Ok(name) = CString::new(device) else { return refuse(no_device()) };
    // SAFETY: the name is a C string; it only asks.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 || name.as_bytes().len() >= libc::IFNAMSIZ {
        return refuse(no_device());
    }
    let failed = |source| Error::Read { what: "the kind of a device", source };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    let socket = socket.map_err(|errno| failed(errno.into()))?;
    // SAFETY: all zeros is a request.
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
