//! The private module of the Python package `knee`: experiments, their runs, and tables as Arrow streams.
//!
//! It is as thin as it can be. What users see, with its docstrings and types, is in `python/knee`. Structured values go over as
//! JSON, tables by the Arrow C stream interface.
#![forbid(unsafe_code)]

mod calls;
mod capture;
mod cost;
mod experiment;
mod failure;
mod keys;
mod read;
mod runs;
mod stream;
mod sweep;
mod table;

use pyo3::prelude::*;

/// Counts memory, so that a run which takes too much ends with a sentence. Python's own memory is not counted.
#[global_allocator]
static ALLOCATOR: knee_memory::Counting = knee_memory::Counting;

#[pymodule]
mod _knee {
    #[pymodule_export]
    use crate::calls::calls;
    #[pymodule_export]
    use crate::capture::{analyse, capture_table};
    #[pymodule_export]
    use crate::experiment::{Experiment, built_in, experiments};
    #[pymodule_export]
    use crate::failure::panic;
    #[pymodule_export]
    use crate::read::{compare_cases, compare_results, manifest, styles};
    #[pymodule_export]
    use crate::stream::{Stream, Streamed};
    #[pymodule_export]
    use crate::sweep::put_into_store;
    #[pymodule_export]
    use crate::table::{Table, table};

    /// Results may be Parquet files, too.
    #[pymodule_init]
    fn begin(_module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        knee_columns::add();
        Ok(())
    }
}
