//! One batch of one partition, from its first record until its fate is known.
//!
//! A batch has one owner at a time and moves between them by value: the partition (open, queued,
//! waiting for another attempt), the list of requests under way of a connection, and the settling
//! of its outcome. It is encoded and compressed once; another attempt sends the same bytes, with
//! another head if its sequence changed.

use std::sync::{Arc, Weak};
use std::time::Instant;

use super::accumulator::Partition;
use super::callbacks::{CALLBACK_BYTES, Pending, PendingList};
use super::record::Undelivered;
use super::sequence::{Identity, Number, Stamp};
use super::ticket::{BatchOutcome, Piece};
use crate::config::ProducerConfig;
use crate::error::{Error, Result};
use crate::protocol::Bytes;
use crate::protocol::records::{
    self, BATCH_HEAD_BYTES, BatchBuilder, Compression, Compressor, Decompressor, Header,
    HeaderView, RecordBatches, Records,
};

/// How new batches are compressed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    pub(super) compression: Compression,
    pub(super) level: Option<i32>,
}

/// Bytes of the head of a batch.
pub(super) const HEAD_BYTES: usize = BATCH_HEAD_BYTES;

/// A batch. See the module.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) number: Number,
    pub(super) outcome: Arc<BatchOutcome>,
    pub(super) callbacks: PendingList,
    /// Bytes of `buffer.memory` that it holds.
    pub(super) reserved: usize,
    pub(super) records: u32,
    /// Its bytes before compression, once it is encoded.
    pub(super) plain_bytes: usize,
    /// When its first record came.
    pub(super) opened: Instant,
    /// How often it was sent.
    pub(super) attempts: u32,
    /// Whether an attempt ended without a definite refusal.
    pub(super) maybe_stored: bool,
    /// Whether its records were told a failure while it was on the wire: see [`Batch::detach`].
    pub(super) given_up: bool,
    /// Whether it is in the retry store already.
    pub(super) is_from_store: bool,
    /// Why the last attempt failed.
    pub(super) last_error: Option<Error>,
    stamped: Option<Stamp>,
    /// The checksum of what follows the head, if it was computed on the way.
    sum: Option<u32>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Open(BatchBuilder),
    Encoded(Bytes),
}

impl Batch {
    /// An open batch that writes into `buffer`, whose capacity has been reserved.
    pub(super) fn open(
        number: Number,
        outcome: Arc<BatchOutcome>,
        buffer: Vec<u8>,
        reserved: usize,
        opened: Instant,
    ) -> Self {
        Self {
            number,
            outcome,
            callbacks: PendingList::default(),
            reserved,
            records: 0,
            plain_bytes: 0,
            opened,
            attempts: 0,
            maybe_stored: false,
            given_up: false,
            is_from_store: false,
            last_error: None,
            stamped: None,
            sum: None,
            body: Body::Open(BatchBuilder::new(buffer)),
        }
    }

    /// One of the retry store, whole.
    pub(super) fn from_store(
        number: Number,
        outcome: Arc<BatchOutcome>,
        builder: BatchBuilder,
        reserved: usize,
        opened: Instant,
    ) -> Self {
        Self {
            records: builder.record_count() as u32,
            is_from_store: true,
            body: Body::Open(builder),
            ..Self::open(number, outcome, Vec::new(), reserved, opened)
        }
    }

    /// The builder, while the batch is open.
    #[inline]
    pub(super) fn builder(&mut self) -> Option<&mut BatchBuilder> {
        match &mut self.body {
            Body::Open(builder) => Some(builder),
            Body::Encoded(_) => None,
        }
    }

    /// Bytes it takes in a request, before compression if it was not compressed yet.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match &self.body {
            Body::Open(builder) => builder.len(),
            Body::Encoded(bytes) => bytes.len(),
        }
    }

    /// The bytes to send, encoded and compressed if that has not been done, carrying `wanted`.
    ///
    /// # Errors
    /// When the codec fails; the batch is lost then.
    pub(super) fn encode(
        &mut self,
        codec: Codec,
        wanted: Option<Stamp>,
        compressor: &mut Compressor,
    ) -> Result<Bytes> {
        if let Body::Open(builder) = &self.body {
            self.plain_bytes = builder.len();
        }
        let body = std::mem::replace(&mut self.body, Body::Encoded(Bytes::new()));
        let mut bytes = match body {
            // A stamp that follows computes the checksum.
            Body::Open(builder) if wanted.is_some() => {
                let Codec { compression, level } = codec;
                let (bytes, sum) = builder.finish_without_crc(compression, level, compressor)?;
                self.sum = sum;
                Bytes::from(bytes)
            }
            Body::Open(builder) => {
                Bytes::from(builder.finish(codec.compression, codec.level, compressor)?)
            }
            Body::Encoded(bytes) => bytes,
        };
        if let Some(stamp) = wanted
            && self.stamped != wanted
        {
            let mut buffer = bytes.into_vec();
            let Identity { id, epoch, .. } = stamp.identity;
            records::stamp_summed(&mut buffer, id, epoch, stamp.first, false, self.sum);
            self.stamped = wanted;
            bytes = Bytes::from(buffer);
        }
        self.body = Body::Encoded(bytes.clone());
        Ok(bytes)
    }

    /// Whether its records have been told an end, or are about to be: what is left of it is its memory
    /// and its place in the sequence.
    pub(super) fn is_over(&self) -> bool {
        self.given_up || self.outcome.is_resolved()
    }

    /// Gives up a batch that is on the wire: what this returns is to be failed in its place, once no
    /// lock is held. What is left waits for the answer and holds the memory until then.
    pub(super) fn detach(&mut self) -> Self {
        let bytes = match &self.body {
            Body::Encoded(bytes) => bytes.clone(),
            Body::Open(_) => unreachable!("what is on the wire is encoded"),
        };
        let callbacks = std::mem::take(&mut self.callbacks);
        let reserved = self.reserved.min(callbacks.len() * CALLBACK_BYTES);
        self.reserved -= reserved;
        self.given_up = true;
        Self {
            number: self.number,
            outcome: Arc::clone(&self.outcome),
            callbacks,
            reserved,
            records: self.records,
            plain_bytes: self.plain_bytes,
            opened: self.opened,
            attempts: self.attempts,
            maybe_stored: true,
            given_up: false,
            is_from_store: self.is_from_store,
            last_error: self.last_error.clone(),
            stamped: self.stamped,
            sum: self.sum,
            body: Body::Encoded(bytes),
        }
    }

    /// Its callbacks, and its buffer if nobody else has a piece of it.
    pub(super) fn into_parts(self) -> (PendingList, Option<Vec<u8>>) {
        let buffer = match self.body {
            Body::Open(builder) => Some(builder.into_buffer()),
            Body::Encoded(bytes) => bytes.into_buffer(),
        };
        (self.callbacks, buffer)
    }

    /// Its records, whole, to be read. It is encoded without compression if it was open.
    fn read(&mut self) -> Result<Records> {
        let plain = Codec { compression: Compression::None, level: None };
        let bytes = self.encode(plain, None, &mut Compressor::new())?;
        let batch = RecordBatches::new(bytes).next();
        let batch = batch.expect("the bytes are a whole batch of ours")?;
        Ok(batch.records(&mut Decompressor::with_limit(usize::MAX))?)
    }

    /// Its records with the reason why they were not delivered.
    ///
    /// # Errors
    /// When the batch cannot be read back.
    pub(super) fn undelivered(
        &mut self,
        topic: &str,
        partition: i32,
        reason: &Error,
    ) -> Result<Vec<Undelivered>> {
        let mut all = Vec::with_capacity(self.records as usize);
        for record in &self.read()? {
            let record = record?;
            let headers = record.headers.iter();
            let headers = headers
                .map(|header| (header.key().into_owned(), header.value.map(<[u8]>::to_vec)))
                .collect();
            all.push(Undelivered {
                topic: topic.to_owned(),
                partition,
                timestamp_ms: record.timestamp_ms,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers,
                reason: reason.clone(),
            });
        }
        Ok(all)
    }

    /// Cuts it: `piece_of` tells for each record, by its place, which piece it goes to (ascending
    /// from 0), or why it fails. Gives the pieces, which take over its memory and the callbacks of
    /// their records, and what its own outcome is to say.
    ///
    /// # Errors
    /// When the batch cannot be read back.
    pub(super) fn cut(
        &mut self,
        origin: &Weak<Partition>,
        piece_of: impl Fn(u32) -> Result<u32, Error>,
    ) -> Result<(Vec<Self>, Vec<Piece>)> {
        let mut pieces: Vec<Self> = Vec::new();
        let mut map = Vec::with_capacity(self.records as usize);
        for (place, record) in self.read()?.iter().enumerate() {
            let (record, place) = (record?, place as u32);
            let piece = match piece_of(place) {
                Ok(piece) => piece as usize,
                Err(error) => {
                    map.push(Piece::Failed(error));
                    continue;
                }
            };
            if piece >= pieces.len() {
                let outcome = BatchOutcome::new(self.outcome.partition(), Weak::clone(origin));
                let number = Number { record: self.number.record + place, ..self.number };
                pieces.push(Self {
                    attempts: self.attempts,
                    is_from_store: self.is_from_store,
                    ..Self::open(number, Arc::new(outcome), Vec::new(), 0, self.opened)
                });
            }
            let piece = pieces.last_mut().expect("one was just made");
            let views: Vec<_> = record.headers.iter().collect();
            let keys: Vec<_> = views.iter().map(HeaderView::key).collect();
            let headers: Vec<_> = keys
                .iter()
                .zip(&views)
                .map(|(key, view)| Header { key, value: view.value })
                .collect();
            let builder = piece.builder().expect("a new piece is open");
            builder.append(record.timestamp_ms, record.key, record.value, &headers)?;
            map.push(Piece::Moved(Arc::clone(&piece.outcome), piece.records));
            piece.records += 1;
        }
        self.hand_over(&mut pieces, &map);
        Ok((pieces, map))
    }

    /// Gives memory and callbacks to the pieces.
    fn hand_over(&mut self, pieces: &mut [Self], map: &[Piece]) {
        let share = self.reserved / pieces.len().max(1);
        for piece in pieces.iter_mut() {
            piece.reserved = share;
            self.reserved -= share;
        }
        for Pending { index, timestamp_ms, callback } in std::mem::take(&mut self.callbacks) {
            match map.get(index as usize) {
                Some(Piece::Moved(outcome, place)) => {
                    let piece =
                        pieces.iter_mut().find(|piece| Arc::ptr_eq(&piece.outcome, outcome));
                    let piece = piece.expect("the map names these pieces");
                    piece.callbacks.push(*place, timestamp_ms, callback);
                }
                _ => self.callbacks.push(index, timestamp_ms, callback),
            }
        }
    }
}

impl Codec {
    pub(super) fn of(config: &ProducerConfig) -> Self {
        let level = match config.compression {
            Compression::Gzip => Some(config.compression_gzip_level),
            Compression::Zstd => Some(config.compression_zstd_level),
            _ => None,
        };
        Self { compression: config.compression, level }
    }
}
