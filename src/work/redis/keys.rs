//! Names of keys.
//!
//! `<prefix>:{<group>}:<name>`. The braces are the hash tag by which a cluster keeps all keys of a group in
//! one slot; braces in the group's own name would end it early, so they are spelled `%7B` and `%7D`, and `%` as `%25`.

/// What all keys of a group begin with.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    base: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, group: &str) -> Self {
        let group = group.replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
        Self { base: format!("{prefix}:{{{group}}}:") }
    }

    /// The beginning itself, which every script gets.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The list that units are popped from.
    pub(super) fn work(&self) -> String {
        format!("{}work", self.base)
    }

    /// Names of workers, by heartbeat.
    pub(super) fn workers(&self) -> String {
        format!("{}workers", self.base)
    }

    /// A worker's own list.
    pub(super) fn working(&self, worker: &str) -> String {
        format!("{}working:{worker}", self.base)
    }

    /// A pattern that finds every worker's own list, for SCAN.
    pub(super) fn working_pattern(&self) -> String {
        let mut pattern = String::new();
        for letter in self.base.chars() {
            if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern + "working:*"
    }

    /// The worker whose own list has this name.
    pub(super) fn worker_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.base)?.strip_prefix("working:")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_hash_tag_whatever_its_name() {
        let keys = Keys::new("ottla", "a}{b%");
        assert_eq!(keys.work(), "ottla:{a%7D%7Bb%25}:work");
        assert_eq!(keys.worker_of(&keys.working("w-1")), Some("w-1"));
        assert_eq!(Keys::new("x*", "g").working_pattern(), "x\\*:{g}:working:*");
    }
}
