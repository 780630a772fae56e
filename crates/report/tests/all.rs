//! Pages and pictures of results. One program, so that one is linked and its tests share the cores.

mod browser;
mod capture;
mod charts;
mod common;
mod report;
