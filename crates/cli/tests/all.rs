//! The command, but for what it does to a kernel. One program, so that one is linked and its tests share the cores.

mod bad_files;
mod cli;
mod continued;
mod documented;
mod flight;
mod hostile;
mod linux_modules;
mod new;
mod other_users;
#[cfg(feature = "parquet")]
mod parquet;
mod record;
mod reports;
mod reproduce;
mod schema;
mod script;
mod support;
mod sweep;
#[cfg(not(feature = "parquet"))]
mod without_parquet;
