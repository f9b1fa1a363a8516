"""A page of metrics in the form of mooncake_master 0.3.11.post1, numbers changed."""

METRICS_0_3_11 = b"""# HELP master_allocated_bytes Total memory bytes currently allocated across all segments
# TYPE master_allocated_bytes gauge
master_allocated_bytes 606208
master_total_capacity_bytes 67108864
segment_total_capacity_bytes{segment="127.0.0.1:13576"} 67108864
master_key_count 74
master_soft_pin_key_count 0
master_active_clients 2
master_exist_key_requests_total 4
master_exist_key_failures_total 0
master_put_start_requests_total 12
master_put_start_failures_total 2
master_put_start_alloc_failures_total 5
master_get_replica_list_requests_total 4
master_get_replica_list_failures_total 3
master_batch_get_replica_list_requests_total 4
master_batch_get_replica_list_failures_total 1
master_batch_put_start_requests_total 10
master_batch_put_start_failures_total 7
master_successful_evictions_total 1
master_attempted_evictions_total 2
master_evicted_key_count 3
master_evicted_size_bytes 12288
"""
