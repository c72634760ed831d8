//! The state machine by itself: what the requests of the cluster's tests do not reach.

use super::machine::{End, Ending, Init, Place, Producer, Protocol, Status, Transaction};
use crate::clock;
use crate::protocol::ErrorCode;

const NOW_MS: i64 = 1_700_000_000_000;

/// A transactional id whose producer gets id 7, and 8, 9 ... after that.
struct World {
    transaction: Transaction,
    next_id: i64,
}

impl World {
    fn new() -> Self {
        Self { transaction: Transaction::new(7, clock::now()), next_id: 8 }
    }

    fn init(&mut self, as_known: Option<Producer>) -> Result<Init, ErrorCode> {
        let next_id = &mut self.next_id;
        self.transaction.init(as_known, 1000, clock::now(), || super::take_id(next_id))
    }

    fn add(&mut self, producer: Producer) -> Result<(), ErrorCode> {
        let place: Place = ("t".to_owned(), 0);
        self.transaction.add(producer, [place], clock::now(), NOW_MS)
    }

    fn end(&mut self, who: Producer, commit: bool, by: Protocol) -> Result<End, ErrorCode> {
        let next_id = &mut self.next_id;
        let times = (clock::now(), NOW_MS);
        self.transaction.end(who, commit, by, times, || super::take_id(next_id))
    }

    /// Commits by the second protocol until the producer has this epoch.
    fn raise_to(&mut self, epoch: i16) {
        while self.transaction.producer().1 < epoch {
            assert!(matches!(self.init(None), Ok(Init::Ready(_))));
        }
    }
}

fn ending(end: Result<End, ErrorCode>) -> Ending {
    match end {
        Ok(End::Now(ending)) => ending,
        other => panic!("{other:?}"),
    }
}

#[test]
fn while_markers_are_written_everybody_waits() {
    for by in [Protocol::V1, Protocol::V2] {
        let mut world = World::new();
        assert_eq!(world.init(None), Ok(Init::Ready((7, 0))));
        assert_eq!(world.add((7, 0)), Ok(()));
        let ending = ending(world.end((7, 0), true, by));
        assert_eq!(world.transaction.status(), Status::PrepareCommit);
        assert_eq!(ending.next, (7, i16::from(by == Protocol::V2)));
        assert_eq!(ending.partitions.len(), 1);
        let concurrent = ErrorCode::CONCURRENT_TRANSACTIONS;
        assert_eq!(world.add(ending.next), Err(concurrent));
        assert_eq!(world.init(None), Err(concurrent));
        assert_eq!(world.end((7, 0), true, by), Err(concurrent));
        assert_eq!(world.end((7, 0), false, by), Err(ErrorCode::INVALID_TXN_STATE));
        world.transaction.complete();
        assert_eq!(world.transaction.status(), Status::CompleteCommit);
        assert_eq!(world.end((7, 0), true, by), Ok(End::Before(ending.next)));
        assert_eq!(world.end((7, 0), false, by), Err(ErrorCode::INVALID_TXN_STATE));
        assert_eq!(world.add(ending.next), Ok(()));
    }
}

#[test]
fn the_second_protocol_aborts_where_nothing_was_added() {
    let mut world = World::new();
    assert_eq!(world.init(None), Ok(Init::Ready((7, 0))));
    let invalid = Err(ErrorCode::INVALID_TXN_STATE);
    assert_eq!(world.end((7, 0), false, Protocol::V1), invalid);
    assert_eq!(world.end((7, 0), true, Protocol::V2), invalid);
    for epoch in 0..3 {
        assert_eq!(ending(world.end((7, epoch), false, Protocol::V2)).next, (7, epoch + 1));
        world.transaction.complete();
        assert_eq!(world.end((7, epoch), false, Protocol::V2), Ok(End::Before((7, epoch + 1))));
        assert_eq!(world.end((7, epoch + 1), true, Protocol::V2), invalid);
    }
    assert_eq!(world.end((7, 0), false, Protocol::V2), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(world.end((9, 3), false, Protocol::V2), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
}

#[test]
fn a_producer_without_epochs_left_becomes_another() {
    let mut world = World::new();
    world.raise_to(i16::MAX - 1);
    let last = (7, i16::MAX - 1);
    assert_eq!(world.init(Some(last)), Ok(Init::Ready((8, 0))));
    assert_eq!(world.init(Some(last)), Ok(Init::Ready((8, 0))), "a repetition");
    assert_eq!(world.init(Some((7, 3))), Err(ErrorCode::PRODUCER_FENCED));

    let mut world = World::new();
    world.raise_to(i16::MAX - 1);
    assert_eq!(world.add(last), Ok(()));
    let ending = ending(world.end(last, true, Protocol::V2));
    assert_eq!((ending.producer, ending.next), ((7, i16::MAX), (8, 0)));
    world.transaction.complete();
    assert_eq!(world.transaction.producer(), (8, 0));
    assert_eq!(world.end(last, true, Protocol::V2), Ok(End::Before((8, 0))));
    assert_eq!(world.add((8, 0)), Ok(()));
}

#[test]
fn one_that_says_what_it_was_is_let_in_only_as_that() {
    let mut world = World::new();
    assert_eq!(world.init(Some((5, 5))), Ok(Init::Ready((7, 0))), "nobody was there before");
    assert_eq!(world.init(Some((7, 0))), Ok(Init::Ready((7, 1))));
    assert_eq!(world.init(Some((7, 0))), Ok(Init::Ready((7, 1))), "a repetition");
    assert_eq!(world.init(Some((5, 0))), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(world.init(None), Ok(Init::Ready((7, 2))));
    assert_eq!(world.init(Some((7, 1))), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(world.add((7, 2)), Ok(()));
    match world.init(Some((7, 2))) {
        Ok(Init::Abort(ending)) => assert_eq!((ending.commit, ending.producer), (false, (7, 3))),
        other => panic!("{other:?}"),
    }
    world.transaction.complete();
    assert_eq!(world.transaction.status(), Status::CompleteAbort);
    assert_eq!(world.add((7, 2)), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(world.init(None), Ok(Init::Ready((7, 4))));
}
