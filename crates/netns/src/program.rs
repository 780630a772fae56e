//! Programs for administrators, which not every root has on its search path.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where distributions keep them. The search path of `su` without `-`, of cron jobs and of some containers lacks these.
const FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the path of a program of the system, such as `tc`: on the search path, or where distributions keep those for
/// administrators. `None`: it is in neither.
pub fn system_program(name: &str) -> Option<PathBuf> {
    found(name, &env::var_os("PATH").unwrap_or_default(), FOLDERS.map(Path::new))
}

fn found<'a>(
    name: &str,
    search_path: &OsStr,
    more: impl IntoIterator<Item = &'a Path>,
) -> Option<PathBuf> {
    let more = more.into_iter().map(Path::to_owned);
    env::split_paths(search_path)
        .chain(more)
        .map(|folder| folder.join(name))
        .find(|at| at.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_search_path_without_the_folder_of_a_program_does_not_hide_it() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = folders.each_ref().map(|folder| folder.path());
        fs::write(second.join("tc"), "").unwrap();
        let find = |search_path: &Path| found("tc", search_path.as_os_str(), [second]);
        assert_eq!(find(first), Some(second.join("tc")));
        fs::write(first.join("tc"), "").unwrap();
        assert_eq!(find(first), Some(first.join("tc")), "the search path comes first");
        assert_eq!(found("no-such-program", first.as_os_str(), [second]), None);
    }
}
