//! The functions, fields and headers of the contract, read from the embedded headers.

use std::collections::{HashMap, HashSet};

use crate::module::headers;
use crate::tokens;

/// Functions, socket fields and headers that an algorithm may name.
pub(super) struct Contract {
    /// Identifiers in each header.
    words: HashMap<&'static str, HashSet<String>>,
    fields: HashSet<String>,
}

/// Headers of single hosts. An algorithm must not use an item that only one of them has.
const HOSTS: [&str; 6] =
    ["native.h", "bpf.h", "linux.h", "native_types.h", "bpf_types.h", "fields.h"];
/// Hosts that every algorithm runs on. The third host is a kernel's own source tree, which has
/// everything that these two have.
const BOTH: [&str; 2] = ["native.h", "bpf.h"];
/// Name prefix of the headers for modules, which are not part of the contract.
const OF_MODULES: &str = "module_";

impl Contract {
    pub(super) fn read() -> Contract {
        let own = headers()
            .iter()
            .filter_map(|(path, text)| Some((path.strip_prefix("knee/")?, *text)))
            .filter(|(name, _)| !name.starts_with(OF_MODULES));
        let mut words: HashMap<&'static str, HashSet<String>> = HashMap::new();
        for (name, text) in own {
            let source = tokens::read(text);
            let mut all: HashSet<String> = source.macros.into_iter().collect();
            all.extend(
                source
                    .tokens
                    .into_iter()
                    .chain(source.bodies)
                    .filter(|t| t.is_word())
                    .map(|t| t.text),
            );
            words.insert(name, all);
        }
        let structs = ["sock", "inet_connection_sock", "tcp_sock"];
        let fields = structs.iter().flat_map(|name| crate::module::fields(name));
        Contract { fields: fields.map(str::to_owned).collect(), words }
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        !HOSTS.contains(&name) && self.words.contains_key(name)
    }

    pub(super) fn has_socket_field(&self, name: &str) -> bool {
        self.fields.contains(name)
    }

    /// Returns whether every host, or a header common to all, has the function.
    pub(super) fn has_function(&self, name: &str) -> bool {
        let of = |header: &str| self.words.get(header).is_some_and(|words| words.contains(name));
        let in_common = self
            .words
            .iter()
            .any(|(header, words)| !HOSTS.contains(header) && words.contains(name));
        in_common || BOTH.iter().all(|host| of(host))
    }

    /// Returns whether any header contains this word, so that a new name would conflict with it.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.words.values().any(|words| words.contains(word))
    }
}
