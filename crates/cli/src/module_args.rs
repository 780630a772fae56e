//! What files of algorithms are compiled with.

use std::path::PathBuf;

use knee_algo::module::{LinuxApi, Options};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ModuleArgs {
    /// A macro for files that --cc names, as -D of a compiler; may be given often.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = define)]
    cc_define: Vec<String>,
    /// A folder of headers for them, as -I of a compiler; may be given often.
    #[arg(long, value_name = "DIR")]
    cc_include: Vec<PathBuf>,
    /// The release of Linux whose interface they are written for, as 4.19 [default: 6.12, or 6.1 for a file that compiles with that alone]
    #[arg(long, value_name = "RELEASE", value_parser = LinuxApi::named)]
    linux: Option<LinuxApi>,
}

impl ModuleArgs {
    pub(crate) fn options(&self) -> Options {
        Options {
            define: self.cc_define.clone(),
            include: self.cc_include.clone(),
            linux: self.linux,
        }
    }
}

fn define(text: &str) -> Result<String, String> {
    Options::check_define(text).map(|()| text.to_owned())
}
