//! Any text as the files of a results directory, each begun by `%%% NAME`: compared, reported and drawn, or refused in one line; never a
//! panic. Files of a second directory are named `b/NAME`; without any it is the first again.
#![no_main]

use std::fs;
use std::path::Path;

use knee_evidence::compare::{Options, Side, compare, json, render};
use knee_fuzz::{check_message, empty_dir, parts};
use knee_report::{write, write_figures};

/// Names of files that knee writes: no other is read.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    !name.is_empty() && name.len() < 40 && name.chars().all(is_plain) && !name.starts_with('.')
}

fn compared(dirs: [&Path; 2]) -> Result<(), knee_scenario::Error> {
    let [a, b] = [Side::read(dirs[0])?, Side::read(dirs[1])?];
    let comparison = compare(a, b, Options { force: true, ..Options::default() })?;
    assert!(!json(&comparison).to_string().is_empty());
    assert!(!render(&[comparison]).is_empty());
    Ok(())
}

knee_fuzz::target!(|text: &str| {
    let dir = empty_dir();
    let (a, b, out) = (dir.join("a"), dir.join("b"), dir.join("out"));
    fs::create_dir(&a).expect("a directory of our own");
    let mut has_second = false;
    for (name, content) in parts(text) {
        let (side, name) = match name.strip_prefix("b/") {
            Some(name) => (&b, name),
            None => (&a, name),
        };
        if side == &b && !has_second {
            fs::create_dir(&b).expect("a directory of our own");
            has_second = true;
        }
        let path = match name.split_once('/') {
            // A reproduction has directories with results in them.
            Some((inner, name)) if is_name(inner) && is_name(name) => {
                let _ = fs::create_dir(side.join(inner));
                side.join(inner).join(name)
            }
            None if is_name(name) => side.join(name),
            _ => continue,
        };
        // One name may be that of a directory.
        let _ = fs::write(path, content);
    }
    if let Err(error) = compared([&a, if has_second { &b } else { &a }]) {
        check_message(&error.to_string());
    }
    match write(&a, &dir.join("report.html")) {
        // Painting takes ten times as long as all the rest.
        Ok(()) if text.len() % 8 == 0 => {
            let painter = knee_png::Painter::new();
            if let Err(error) = write_figures(&a, &out, None, &|svg| painter.png(svg)) {
                check_message(&error.to_string());
            }
        }
        Ok(()) => {}
        Err(error) => check_message(&error.to_string()),
    }
});
