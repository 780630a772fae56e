//! Networks and their routes. One program, so that one is linked.

mod networks;
mod routes;
