//! Evidence: what the results of a sweep say of an experiment's claims, and of another sweep.
//!
//! [`judge`](judge::judge) gives verdicts on claims, [`compare`] on the differences of two directories of results, and [`reproduce`]
//! runs many experiments of a [`catalogue`] against [`golden`] texts. [`table`] and [`overview`] show results as text, [`beside`] shows
//! them beside published figures, and [`explain`] describes an experiment before it is run.
#![forbid(unsafe_code)]

pub mod beside;
pub mod catalogue;
pub mod compare;
pub mod difference;
pub mod explain;
pub mod golden;
pub mod judge;
pub mod overview;
pub mod reproduce;
mod settings;
mod stats;
pub mod table;
pub mod until;
