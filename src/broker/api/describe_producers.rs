//! `DescribeProducers`, API 61, version 0: what a replica remembers of producers (KIP-664).

use super::super::call::{Api, Call, Outcome};
use super::super::state::{State, Wanted};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState,
    TopicRequest, TopicResponse,
};

impl Api for DescribeProducersRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DescribeProducersResponse> {
        let topics = self.topics.iter();
        let topics = topics.map(|topic| answered(topic, |index| row(&topic.name, index, call)));
        let topics = topics.collect();
        Outcome::Answer(DescribeProducersResponse { topics, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DescribeProducersResponse {
        let topics = self.topics.iter().map(|topic| answered(topic, |index| failed(index, error)));
        DescribeProducersResponse { topics: topics.collect(), ..Default::default() }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn throttle(response: &mut DescribeProducersResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn row(topic: &str, index: i32, call: &Call<'_>) -> PartitionResponse {
    let wanted = Wanted { leader_only: false, ..Wanted::of_leader(topic, index) };
    let partition = match call.state.replica(call.broker, wanted) {
        Ok((_, partition)) => partition,
        Err(code) => {
            let has_topic = call.state.topics().contains_key(topic);
            let error_message = (!has_topic).then(|| code.to_string());
            return PartitionResponse { error_message, ..failed(index, code) };
        }
    };
    let producers = partition.log.producers.known().map(|(producer_id, producer)| ProducerState {
        producer_id,
        producer_epoch: i32::from(producer.epoch),
        last_sequence: producer.last_sequence(),
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.open_since.unwrap_or(-1),
        ..Default::default()
    });
    PartitionResponse {
        partition_index: index,
        active_producers: producers.collect(),
        ..Default::default()
    }
}

fn answered(topic: &TopicRequest, row: impl Fn(i32) -> PartitionResponse) -> TopicResponse {
    TopicResponse {
        name: topic.name.clone(),
        partitions: topic.partition_indexes.iter().copied().map(row).collect(),
        ..Default::default()
    }
}

fn failed(partition_index: i32, error_code: ErrorCode) -> PartitionResponse {
    PartitionResponse { partition_index, error_code, ..Default::default() }
}
