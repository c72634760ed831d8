//! Answers of Redis, read without trust.
//!
//! A script's answer is nested lists of texts and numbers. [`Fields`] takes them one by one; whatever is not of
//! the form that is expected is an error of kind `Queue`, never a panic.

use std::str::FromStr;

use r2d2_redis::redis::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::Uuid;
use crate::work::queue::{Answer, PartitionState, Settled};

/// The fields of an answer, taken from the first to the last.
pub(super) struct Fields(std::vec::IntoIter<Value>);

/// An answer of another form than the scripts give.
pub(super) fn unexpected(what: &str) -> Error {
    Error::new(ErrorKind::Queue, format!("Redis's answer is not of this queue's form: {what}"))
}

impl Fields {
    /// The fields of a list.
    pub(super) fn of(value: Value) -> Result<Self> {
        match value {
            Value::Bulk(items) => Ok(Self(items.into_iter())),
            _ => Err(unexpected("no list")),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The next field, as it is.
    pub(super) fn value(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(|| unexpected("too few fields"))
    }

    pub(super) fn text(&mut self) -> Result<String> {
        text(self.value()?)
    }

    /// The next field, read from its text.
    pub(super) fn parse<T: FromStr>(&mut self) -> Result<T> {
        let text = self.text()?;
        text.parse().map_err(|_| unexpected(&text))
    }

    /// The next field, which is a list of fields.
    pub(super) fn fields(&mut self) -> Result<Self> {
        Self::of(self.value()?)
    }

    /// Every field that is left, as texts.
    pub(super) fn texts(self) -> Result<Vec<String>> {
        self.0.map(text).collect()
    }

    /// Every field that is left, each a list of fields.
    pub(super) fn lists(self) -> impl Iterator<Item = Result<Self>> {
        self.0.map(Self::of)
    }

    /// The verdict that an organiser's script begins with; the rest is what was done.
    pub(super) fn answer(mut self) -> Result<Answer<Self>> {
        match self.text()?.as_str() {
            "done" => Ok(Answer::Done(self)),
            "not-leader" => Ok(Answer::NotLeader),
            "stale" => Ok(Answer::Stale),
            other => Err(unexpected(other)),
        }
    }

    /// What became of a unit.
    pub(super) fn settled(&mut self, verdict: &str) -> Result<Settled> {
        match verdict {
            "complete" => Ok(Settled::Complete),
            "remainder" => Ok(Settled::Remainder(self.parse()?)),
            "delayed" => Ok(Settled::Delayed),
            "dead" => Ok(Settled::Dead),
            other => Err(unexpected(other)),
        }
    }

    /// A partition's state; `None` if the list is empty.
    pub(super) fn partition_state(mut self) -> Result<Option<PartitionState>> {
        if self.is_empty() {
            return Ok(None);
        }
        Ok(Some(PartitionState {
            topic_id: topic_id(&self.text()?)?,
            planned: self.parse()?,
            low: self.parse()?,
            committed: self.text()? == "1",
            leader_epoch: self.parse()?,
            outstanding: self.parse()?,
        }))
    }
}

/// A text or a number as text.
pub(super) fn text(value: Value) -> Result<String> {
    match value {
        Value::Data(bytes) => {
            String::from_utf8(bytes).map_err(|_| unexpected("a text that is no UTF-8"))
        }
        Value::Int(number) => Ok(number.to_string()),
        Value::Status(text) => Ok(text),
        Value::Okay => Ok("OK".to_owned()),
        Value::Nil | Value::Bulk(_) => Err(unexpected("no text")),
    }
}

/// A topic id as the queue spells it: 32 hexadecimal digits.
pub(super) fn topic_id_text(id: Uuid) -> String {
    format!("{:032x}", u128::from_be_bytes(id.0))
}

/// The topic id of that spelling.
pub(super) fn topic_id(text: &str) -> Result<Uuid> {
    let bits = u128::from_str_radix(text, 16).map_err(|_| unexpected(text))?;
    Ok(Uuid(bits.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            any::<Vec<u8>>().prop_map(Value::Data),
            prop_oneof![Just("done"), Just("stale"), Just("t/0/1-2"), Just("7"), Just("remainder")]
                .prop_map(|text| Value::Data(text.into())),
        ];
        leaf.prop_recursive(3, 30, 8, |inner| {
            proptest::collection::vec(inner, 0..8).prop_map(Value::Bulk)
        })
    }

    proptest! {
        #[test]
        fn any_answer_is_a_value_or_an_error(value in any_value()) {
            if let Ok(fields) = Fields::of(value.clone()) {
                let _ = fields.partition_state();
            }
            if let Ok(Ok(Answer::Done(mut fields))) = Fields::of(value.clone()).map(Fields::answer) {
                let verdict = fields.text().unwrap_or_default();
                let _ = fields.settled(&verdict);
            }
            if let Ok(fields) = Fields::of(value) {
                for list in fields.lists() {
                    let _ = list.and_then(Fields::texts);
                }
            }
        }

        #[test]
        fn topic_ids_read_back_what_they_write(id in any::<[u8; 16]>()) {
            prop_assert_eq!(topic_id(&topic_id_text(Uuid(id))).unwrap(), Uuid(id));
        }
    }
}
