//! Questions of many threads, put together: one asks for all that came while others were asking.
//!
//! A round trip costs Redis and this side several times what a script costs, mostly in the kernel. While a few threads
//! wait for their answers the questions of the others gather; the first of them then asks for all of these in one
//! write and one read. A thread that is alone asks at once and loses nothing.
//!
//! ```text
//!   a: ask ─────────────── answered
//!   b:   gather ··········· ask b, c, d ── answered
//!   c:      gather ······················· answered
//!   d:         gather ··················── answered
//! ```
//!
//! Knows nothing of Redis. No lock is held while somebody asks. A question waits for a batch that is under way, for those
//! that came before it, and for its own; each batch ends in bounded time because asking does.
//!
//! The invariant: whoever waits is in the queue or in a batch under way; who has the lead is in no queue; the queue is
//! empty unless every lead is taken.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Questions of one batch at most.
const BATCH_MAX: usize = 64;
/// Batches under way at a time. With one alone, few threads and a distant Redis lose up to half: the others wait two ways.
const LEADS_MAX: usize = 8;

/// Where threads gather.
pub(super) struct Batches<Q, A> {
    state: Mutex<State<Q, A>>,
}

struct State<Q, A> {
    /// Threads that ask, or were told to.
    leads: usize,
    waiting: VecDeque<(Q, Arc<Ticket<Q, A>>)>,
}

/// One thread's place.
struct Ticket<Q, A> {
    turn: Mutex<Turn<Q, A>>,
    woken: Condvar,
}

enum Turn<Q, A> {
    Wait,
    /// Ask, your own question first, for those who wait.
    Lead(Q),
    Answered(A),
    /// The thread that asked panicked.
    Abandoned,
}

impl<Q, A> Ticket<Q, A> {
    fn set(&self, turn: Turn<Q, A>) {
        *self.turn.lock() = turn;
        self.woken.notify_one();
    }

    fn take(&self) -> Turn<Q, A> {
        let mut turn = self.turn.lock();
        while matches!(*turn, Turn::Wait) {
            self.woken.wait(&mut turn);
        }
        std::mem::replace(&mut *turn, Turn::Wait)
    }
}

impl<Q, A> Batches<Q, A> {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State { leads: 0, waiting: VecDeque::new() }) }
    }

    /// The answer to `question`. `ask` is called by some of the callers, for all questions of a batch, and gives an answer
    /// to each, in order. `None`: the thread that asked for this one panicked, and whether it was asked is unknown.
    ///
    /// # Panics
    /// If `ask` panics on this thread.
    pub(super) fn ask(&self, question: Q, ask: impl FnOnce(Vec<Q>) -> Vec<A>) -> Option<A> {
        let mut state = self.state.lock();
        if state.leads < LEADS_MAX {
            state.leads += 1;
            drop(state);
            return Some(self.lead(question, ask));
        }
        let ticket = Arc::new(Ticket { turn: Mutex::new(Turn::Wait), woken: Condvar::new() });
        state.waiting.push_back((question, Arc::clone(&ticket)));
        drop(state);
        match ticket.take() {
            Turn::Lead(question) => Some(self.lead(question, ask)),
            Turn::Answered(answer) => Some(answer),
            Turn::Abandoned | Turn::Wait => None,
        }
    }

    /// Asks for this one and those who wait, and passes the lead on.
    fn lead(&self, question: Q, ask: impl FnOnce(Vec<Q>) -> Vec<A>) -> A {
        let mut batch = Batch { of: self, tickets: Vec::new() };
        let mut questions = vec![question];
        {
            let mut state = self.state.lock();
            let count = state.waiting.len().min(BATCH_MAX - 1);
            for (question, ticket) in state.waiting.drain(..count) {
                questions.push(question);
                batch.tickets.push(ticket);
            }
        }
        let answers = ask(questions);
        assert_eq!(answers.len(), batch.tickets.len() + 1, "each question has an answer");
        let mut answers = answers.into_iter();
        let own = answers.next().expect("the own question has an answer");
        for (ticket, answer) in batch.tickets.drain(..).zip(answers) {
            ticket.set(Turn::Answered(answer));
        }
        own
    }
}

/// A batch under way. However it ends, nobody is left waiting.
struct Batch<'a, Q, A> {
    of: &'a Batches<Q, A>,
    tickets: Vec<Arc<Ticket<Q, A>>>,
}

impl<Q, A> Drop for Batch<'_, Q, A> {
    fn drop(&mut self) {
        for ticket in self.tickets.drain(..) {
            ticket.set(Turn::Abandoned);
        }
        let mut state = self.of.state.lock();
        match state.waiting.pop_front() {
            Some((question, next)) => next.set(Turn::Lead(question)),
            None => state.leads -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::clock::Deadline;

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Deadline::within(Duration::from_secs(30));
        while !holds() {
            assert!(!deadline.left().is_zero(), "{what}");
            std::thread::yield_now();
        }
    }

    fn is_idle<Q, A>(batches: &Batches<Q, A>) -> bool {
        let state = batches.state.lock();
        state.leads == 0 && state.waiting.is_empty()
    }

    /// Each gets the answer to its own question.
    #[test]
    fn each_gets_its_own_answer() {
        const THREADS: u64 = 16;
        const EACH: u64 = 500;
        let (batches, under_way) = (Batches::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (batches, under_way) = (&batches, &under_way);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let question = thread * EACH + n;
                        let answer = batches.ask(question, |questions: Vec<u64>| {
                            assert!(questions.len() <= BATCH_MAX);
                            assert!(under_way.fetch_add(1, Ordering::SeqCst) < LEADS_MAX);
                            let answers = questions.into_iter().map(|q| q * 2).collect();
                            under_way.fetch_sub(1, Ordering::SeqCst);
                            answers
                        });
                        assert_eq!(answer, Some(question * 2));
                    }
                });
            }
        });
        assert!(is_idle(&batches));
    }

    /// Takes every lead, lets `COUNT` others gather, gives one lead free and then the rest. Gives the sizes of the batches
    /// and what the others were answered (`Err`: a panic).
    fn gather<const COUNT: usize>(
        ask: impl Fn(Vec<usize>) -> Vec<usize> + Sync,
    ) -> (Vec<usize>, Vec<std::thread::Result<Option<usize>>>) {
        let (batches, sizes, free) = (Batches::new(), Mutex::new(Vec::new()), AtomicUsize::new(0));
        let answers = std::thread::scope(|scope| {
            let (batches, sizes, free, ask) = (&batches, &sizes, &free, &ask);
            for n in 0..LEADS_MAX {
                scope.spawn(move || {
                    batches.ask(n, |questions: Vec<usize>| {
                        until("it is let go", || free.load(Ordering::SeqCst) > n);
                        questions
                    })
                });
                until("it leads", || batches.state.lock().leads == n + 1);
            }
            let mut others = Vec::new();
            for n in 0..COUNT {
                others.push(scope.spawn(move || {
                    batches.ask(100 + n, |questions: Vec<usize>| {
                        sizes.lock().push(questions.len());
                        ask(questions)
                    })
                }));
                until("it waits", || batches.state.lock().waiting.len() == n + 1);
            }
            free.store(1, Ordering::SeqCst);
            let answers: Vec<_> =
                others.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            free.store(LEADS_MAX, Ordering::SeqCst);
            answers
        });
        assert!(is_idle(&batches));
        (sizes.into_inner(), answers)
    }

    #[test]
    fn what_gathers_is_one_batch_and_a_batch_has_a_limit() {
        let (sizes, answers) = gather::<4>(|questions| questions);
        assert_eq!(sizes, [4]);
        let answers: Vec<_> =
            answers.into_iter().map(|answer| answer.expect("an answer")).collect();
        assert_eq!(answers, [Some(100), Some(101), Some(102), Some(103)]);
        assert_eq!(gather::<{ BATCH_MAX + 3 }>(|questions| questions).0, [BATCH_MAX, 3]);
    }

    /// The thread that asks panics; the others are told that nothing is known, and those after them are answered.
    #[test]
    fn a_panic_ends_the_thread_that_asked_and_no_other() {
        let (sizes, answers) = gather::<{ BATCH_MAX + 1 }>(|questions| {
            assert!(!questions.contains(&101), "on purpose");
            questions
        });
        assert_eq!(sizes, [BATCH_MAX, 1]);
        let mut answers = answers.into_iter();
        assert!(answers.next().is_some_and(|answer| answer.is_err()), "it asked");
        for _ in 1..BATCH_MAX {
            assert!(matches!(answers.next(), Some(Ok(None))));
        }
        assert!(matches!(answers.next(), Some(Ok(Some(last))) if last == 100 + BATCH_MAX));
    }
}
