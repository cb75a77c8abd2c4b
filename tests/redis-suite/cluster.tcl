# Behind Redis's own cluster_util.tcl, for the units that are run in cluster mode. A server with `cluster-enabled yes` is a
# cluster of one node, which owns all slots. Nodes of a larger one form it together, by `cluster-seeds`: CLUSTER MEET and
# CLUSTER ADDSLOTSRANGE do not. So blocks with several nodes are passed over; skips.txt lists their tests.
proc cluster_setup {masters node_count slot_allocator code} {
    if {$node_count > 1} {
        return
    }
    wait_for_cluster_state "ok"
    uplevel 1 $code
}
