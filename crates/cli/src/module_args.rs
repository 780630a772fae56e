//! Compiler options of algorithm files.

use std::path::PathBuf;

use knee_algo::module::{Api, LinuxApi, Options};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ModuleArgs {
    /// Define a macro for algorithm files, as the compiler's -D. Repeat it for more.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = define)]
    cc_define: Vec<String>,
    /// Search a folder for headers of algorithm files, as the compiler's -I. Repeat it for more.
    #[arg(long, value_name = "DIR")]
    cc_include: Vec<PathBuf>,
    /// Compile algorithm files against the interface of this Linux, as 4.19 [default: 6.12, or 6.1 if only that compiles]
    #[arg(long, value_name = "RELEASE", value_parser = LinuxApi::named)]
    linux: Option<LinuxApi>,
    /// Compile algorithm files against this API: linux, or v3 (kernels of google/bbr v3 and of L4S) [default: by the names that
    /// a file uses]
    #[arg(long, value_name = "linux|v3", value_parser = Api::named)]
    api: Option<Api>,
}

impl ModuleArgs {
    pub(crate) fn options(&self) -> Options {
        Options {
            define: self.cc_define.clone(),
            include: self.cc_include.clone(),
            linux: self.linux,
            api: self.api,
        }
    }
}

fn define(text: &str) -> Result<String, String> {
    Options::check_define(text).map(|()| text.to_owned())
}
