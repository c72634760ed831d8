//! `DescribeCluster`, API 60, versions 0-2: the brokers that run, and the controller.
//!
//! Any broker answers. Controllers have no listener here, so an endpoint of theirs is refused as a
//! broker's listener does. Nobody is unauthorized: all operations on a cluster are listed when they are
//! asked for.

use super::super::call::{Api, Call, Outcome};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

/// `EndpointType.BROKER`.
const BROKERS: i8 = 1;
/// `EndpointType.CONTROLLER`.
const CONTROLLERS: i8 = 2;
/// The operations on a cluster (`AclOperation`), one bit each: create, alter, describe, cluster
/// action, describe configs, alter configs, idempotent write.
const OPERATIONS: i32 = 0x1fa0;

impl Api for DescribeClusterRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DescribeClusterResponse> {
        let refused = |error_code, why: String| {
            Outcome::Answer(DescribeClusterResponse {
                error_code,
                error_message: Some(why),
                ..Default::default()
            })
        };
        match self.endpoint_type {
            BROKERS => {}
            CONTROLLERS => {
                let why = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint \
                           of type CONTROLLER";
                return refused(ErrorCode::MISMATCHED_ENDPOINT_TYPE, why.to_owned());
            }
            other => {
                let why = format!("Unsupported endpoint type {other}");
                return refused(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, why);
            }
        }
        let broker = |(broker_id, port)| DescribeClusterBroker {
            broker_id,
            host: "127.0.0.1".to_owned(),
            port,
            ..Default::default()
        };
        let live = call.state.live().map(|(id, node)| (id, i32::from(node.port)));
        let mut answer = DescribeClusterResponse {
            cluster_id: call.state.cluster_id.clone(),
            controller_id: call.state.controller(),
            brokers: live.map(broker).collect(),
            ..Default::default()
        };
        if self.include_cluster_authorized_operations {
            answer.cluster_authorized_operations = OPERATIONS;
        }
        Outcome::Answer(answer)
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DescribeClusterResponse {
        DescribeClusterResponse { error_code: error, ..Default::default() }
    }

    fn throttle(response: &mut DescribeClusterResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
