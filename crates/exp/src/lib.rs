//! exp
