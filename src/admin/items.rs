//! [`Items`]: one result per topic over several attempts. Pure.
//!
//! An attempt names the topics that are still open. What an answer says of each either settles it
//! or leaves it open for the next attempt, with the reason kept.

use crate::error::{Error, ErrorKind, Recovery};
use crate::protocol::ErrorCode;

/// What became of each topic so far, in the caller's order.
#[derive(Debug)]
pub(super) struct Items<T> {
    rows: Vec<Row<T>>,
    /// An earlier attempt may have been carried out without our hearing of it.
    lost_answer: bool,
}

#[derive(Debug)]
struct Row<T> {
    name: String,
    settled: Option<Result<T, Error>>,
    last: Option<Error>,
}

impl<T> Items<T> {
    /// All open but those that are `refused` already.
    pub(super) fn new(names: impl Iterator<Item = (String, Option<Error>)>) -> Self {
        let row = |(name, refused): (String, Option<Error>)| Row {
            name,
            settled: refused.map(Err),
            last: None,
        };
        Self { rows: names.map(row).collect(), lost_answer: false }
    }

    /// The positions of those that are open.
    pub(super) fn open(&self) -> Vec<usize> {
        let open = self.rows.iter().enumerate().filter(|(_, row)| row.settled.is_none());
        open.map(|(index, _)| index).collect()
    }

    /// The names of those that are open.
    pub(super) fn open_names(&self) -> Vec<String> {
        let open = self.rows.iter().filter(|row| row.settled.is_none());
        open.map(|row| row.name.clone()).collect()
    }

    /// Settles an open topic; the name of one that was not asked about is not taken up.
    pub(super) fn settle(&mut self, name: &str, result: Result<T, Error>) {
        if let Some(row) = self.open_row(name) {
            row.settled = Some(result.map_err(|error| error.with_topic(name)));
        }
    }

    /// Leaves an open topic for the next attempt, because of `error`.
    pub(super) fn postpone(&mut self, name: &str, error: Error) {
        if let Some(row) = self.open_row(name) {
            row.last = Some(error.with_topic(name));
        }
    }

    /// Notes that a whole attempt failed: it may have been carried out, unless it never left.
    pub(super) fn attempt_failed(&mut self, error: &Error) {
        self.lost_answer |= matches!(
            error.kind(),
            ErrorKind::Timeout
                | ErrorKind::Disconnected
                | ErrorKind::Protocol
                | ErrorKind::AnswerTooLarge
                | ErrorKind::NotKafka
        );
    }

    /// Whether an earlier attempt may have been carried out.
    pub(super) fn lost_answer(&self) -> bool {
        self.lost_answer
    }

    /// The reason why something is still open, as the next attempt's cause; `None`: nothing is.
    pub(super) fn reason(&self) -> Option<Error> {
        let open = self.rows.iter().filter(|row| row.settled.is_none());
        let mut left_out = None;
        for row in open {
            match &row.last {
                Some(error) => return Some(error.clone()),
                None => left_out = Some(&row.name),
            }
        }
        left_out.map(|name| {
            Error::new(ErrorKind::Protocol, "the answer leaves a topic out").with_topic(name)
        })
    }

    /// Settles what is open with its own last error, or with `error` of the call as a whole.
    pub(super) fn give_up(&mut self, error: &Error) {
        let lost_answer = self.lost_answer;
        for row in self.rows.iter_mut().filter(|row| row.settled.is_none()) {
            let own = row.last.take().filter(|own| own.broker_code() != error.broker_code());
            let error = own.unwrap_or_else(|| error.clone());
            row.settled = Some(Err(error.maybe_persisted(lost_answer).with_topic(&row.name)));
        }
    }

    /// Whether a broker has said something of any topic.
    pub(super) fn any_word(&self) -> bool {
        self.rows.iter().any(|row| row.settled.is_some() || row.last.is_some())
    }

    /// Takes the results for a closer look; topics whose result `f` gives back as `None` are open
    /// again.
    pub(super) fn revise(
        &mut self,
        mut f: impl FnMut(usize, Result<T, Error>) -> Option<Result<T, Error>>,
    ) {
        for (index, row) in self.rows.iter_mut().enumerate() {
            if let Some(settled) = row.settled.take() {
                row.settled = f(index, settled);
            }
        }
    }

    /// Every name with its result.
    pub(super) fn into_results(self) -> impl Iterator<Item = (String, Result<T, Error>)> {
        self.rows.into_iter().map(|row| {
            (row.name, row.settled.expect("give_up or an answer has settled every topic"))
        })
    }

    fn open_row(&mut self, name: &str) -> Option<&mut Row<T>> {
        self.rows.iter_mut().find(|row| row.name == name && row.settled.is_none())
    }
}

/// What a failure of a request to the controller asks for: the controller may have moved.
pub(super) fn recovery(error: &Error) -> Recovery {
    match error.broker_code() {
        Some(ErrorCode::NOT_CONTROLLER) => Recovery::RefreshMetadata,
        // It gets here only for a topic that is being deleted.
        Some(ErrorCode::TOPIC_ALREADY_EXISTS) => Recovery::Retry,
        _ => error.recovery(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Items<u8> {
        let refused = Error::new(ErrorKind::InvalidInput, "no");
        let names = [("a", None), ("b", Some(refused)), ("c", None), ("d", None)];
        Items::new(names.into_iter().map(|(name, refused)| (name.to_owned(), refused)))
    }

    #[test]
    fn each_topic_keeps_its_own_result() {
        let mut items = items();
        assert_eq!(items.open_names(), ["a", "c", "d"]);
        items.settle("a", Ok(1));
        items.settle("a", Ok(2));
        items.settle("stranger", Ok(3));
        items.postpone("c", Error::from_code(ErrorCode::THROTTLING_QUOTA_EXCEEDED, Some("slow")));
        assert_eq!(items.open(), [2, 3]);
        assert!(items.reason().expect("two are open").to_string().contains("slow"));
        items.give_up(&Error::new(ErrorKind::Timeout, "no time"));
        let words: Vec<String> = items
            .into_results()
            .map(|(name, result)| match result {
                Ok(value) => format!("{name}={value}"),
                Err(error) => format!("{name}: {error}"),
            })
            .collect();
        assert_eq!(words[0], "a=1");
        assert!(words[1].starts_with("b: no"), "{}", words[1]);
        assert!(words[2].contains("slow"), "{}", words[2]);
        assert!(words[3].contains("no time"), "{}", words[3]);
    }

    #[test]
    fn an_outcome_is_in_doubt_only_when_a_request_left() {
        for (kind, doubt) in [(ErrorKind::Connect, false), (ErrorKind::Disconnected, true)] {
            let (mut items, error) = (items(), Error::new(kind, "x"));
            items.attempt_failed(&error);
            items.give_up(&error);
            let (_, result) = items.into_results().next().expect("four rows");
            assert_eq!(result.unwrap_err().possibly_persisted(), doubt);
        }
    }

    #[test]
    fn an_answer_without_a_topic_is_an_error_of_the_peer() {
        let mut items = items();
        items.settle("a", Ok(1));
        items.settle("c", Ok(1));
        let error = items.reason().expect("d is open");
        assert_eq!((error.kind(), error.topic()), (ErrorKind::Protocol, Some("d")));
    }
}
