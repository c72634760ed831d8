//! `ListGroups`, API 16, versions 0-5: the groups that the asked broker coordinates.
//!
//! Filters by state (version 4, KIP-518) and by type (version 5, KIP-848), whatever the case of their
//! letters; one that names nothing known lets nothing through.

use std::collections::BTreeSet;

use super::super::call::{Api, Call, Outcome};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

/// The only type there is.
const TYPE: &str = "classic";

impl Api for ListGroupsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<ListGroupsResponse> {
        let lower = |names: &[String]| -> BTreeSet<String> {
            names.iter().map(|name| name.trim().to_lowercase()).collect()
        };
        let (states, types) = (lower(&self.states_filter), lower(&self.types_filter));
        let passes = |filter: &BTreeSet<String>, name: &str| {
            filter.is_empty() || filter.contains(&name.to_lowercase())
        };
        let mut groups: Vec<ListedGroup> = Vec::new();
        for (id, group) in call.state.all_groups(call.now) {
            if passes(&states, group.state().name()) && passes(&types, TYPE) {
                groups.push(ListedGroup {
                    group_id: id.to_owned(),
                    protocol_type: group.protocol_type().unwrap_or_default().to_owned(),
                    group_state: group.state().name().to_owned(),
                    group_type: TYPE.to_owned(),
                    ..Default::default()
                });
            }
        }
        groups.retain(|group| call.state.coordinates(call.broker, &group.group_id));
        Outcome::Answer(ListGroupsResponse { groups, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> ListGroupsResponse {
        ListGroupsResponse { error_code: error, ..Default::default() }
    }

    fn throttle(response: &mut ListGroupsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
