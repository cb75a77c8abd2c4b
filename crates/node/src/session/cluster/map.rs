//! The map of the cluster, for commands about it.

use std::sync::Arc;

use ::membership::Map;
use command::Error;

use super::super::SessionCtx;
use crate::admission::state::NO_CLUSTER;

/// The map as this turn sees it, and this node's place in it.
pub(super) fn map(ctx: &SessionCtx<'_>) -> Result<(Arc<Map>, Option<u16>), Error> {
    let peers = ctx.peers;
    let known = peers.is_cluster().then(|| (peers.map.clone(), peers.my_place()));
    known.ok_or(Error::new(NO_CLUSTER))
}
