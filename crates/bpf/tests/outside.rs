//! Files of somebody's own become objects, and of objects only those that knee made of a file pass.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::path::Path;

use knee_bpf::Embedded;
use knee_testbed::outside;

/// The object of the file of the tests; `None`: there is no clang.
fn object() -> Option<Vec<u8>> {
    if Embedded::all().is_empty() {
        return None;
    }
    Some(Embedded::of_file(&outside::path(), None).unwrap().object().to_vec())
}

fn refusal(bytes: &[u8]) -> String {
    Embedded::of_object(Path::new("x.bpf.o"), bytes).err().unwrap().to_string()
}

/// With each of these texts, once or more, in place of another one of the same length.
fn with(object: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut changed = object.to_vec();
    let places: Vec<usize> = (0..object.len() - from.len())
        .filter(|at| object[*at..].starts_with(from.as_bytes()))
        .collect();
    assert!(!places.is_empty(), "no {from}");
    for at in places {
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    changed
}

#[test]
fn what_an_object_says_is_what_the_file_says() {
    let Some(object) = object() else { return };
    let made = Embedded::of_object(Path::new("gentle.bpf.o"), &object).unwrap();
    let (told, native) = (made.algorithm(), outside::native());
    assert_eq!(format!("{:?}", told.params()), format!("{:?}", native.params()));
    assert_eq!((told.name(), told.needs_ecn()), (outside::NAME, native.needs_ecn()));
    assert_eq!(told.operations(), native.operations());
    let source = made.source().unwrap();
    assert_eq!(source.file, "gentle.c");
    assert_eq!(source.sha256, native.module().unwrap().sha256());
}

#[test]
fn the_same_file_gives_the_same_object_wherever_it_lies() {
    let Some(object) = object() else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["gentle.c", "gentle.h"] {
        fs::copy(outside::path().with_file_name(name), dir.path().join(name)).unwrap();
    }
    // Headers of knee's are not taken from where the file is.
    fs::write(dir.path().join("tcp.h"), "#error another tcp.h\n").unwrap();
    let elsewhere = Embedded::of_file(&dir.path().join("gentle.c"), None).unwrap();
    assert!(elsewhere.object() == object);
}

#[test]
fn a_clang_that_is_none_is_refused() {
    let why = Embedded::of_file(&outside::path(), Some("/bin/true")).err().unwrap().to_string();
    assert!(why.contains("\"/bin/true\" is no clang 17 or later"), "{why}");
    assert!(why.contains("--object"), "{why}");
}

#[test]
fn objects_that_knee_did_not_make_of_a_file_are_refused() {
    let Some(object) = object() else { return };
    for (bytes, expected) in [
        (Vec::new(), "is no object for BPF"),
        (b"\x7fELF\x02\x01\x01".to_vec(), "is no object for BPF"),
        (object[..object.len() / 2].to_vec(), "broken object"),
        (Embedded::by_name("dctcp").unwrap().object().to_vec(), "no section that names its source"),
        (knee_bpf::program("policy").unwrap().to_vec(), "no section that names its source"),
        (with(&object, "cc_open_records", "cc_mine_records"), "has a map \"cc_mine_records\""),
        (with(&object, "cc_ops_gentle", "cc_ops_gantle"), "they must be the same"),
        (with(&object, "keep\0\0share", "ke p\0\0share"), "parameters that cannot be read"),
    ] {
        let why = refusal(&bytes);
        assert!(why.starts_with("x.bpf.o: ") && why.contains(expected), "{expected}: {why}");
    }
}

/// Whatever is changed in an object, it is refused or read, and what is read keeps to the bounds.
#[test]
fn changed_objects_do_no_harm() {
    let Some(object) = object() else { return };
    let mut random: u64 = 1;
    let mut next = |below: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut changed = object.clone();
        for _ in 0..1 + next(4) {
            let at = next(changed.len());
            changed[at] = next(256) as u8;
        }
        if let Ok(made) = Embedded::of_object(Path::new("x.bpf.o"), &changed) {
            assert!(made.name().len() < 16 && made.algorithm().params().len() <= 64);
        }
    }
}
