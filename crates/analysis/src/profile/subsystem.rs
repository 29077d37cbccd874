//! The subsystem of PostgreSQL whose time a sample was, by the names of functions.
//!
//! The kernel's functions are marked. Of the others, the innermost one decides whose name begins as a row of the table says, the
//! longest beginning first; so a copy of memory or an allocation is the time of whoever asked for it. The rows follow the directories of
//! PostgreSQL's sources in which these functions are defined.

use model::run::profile::KERNEL;

/// A part of the server, or what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Subsystem {
    Wal,
    Buffers,
    Locks,
    Transactions,
    Tables,
    Executor,
    Planner,
    Network,
    Kernel,
    Other,
}

impl Subsystem {
    /// In the order of legends.
    pub const ALL: [Subsystem; 10] = [
        Subsystem::Wal,
        Subsystem::Buffers,
        Subsystem::Locks,
        Subsystem::Transactions,
        Subsystem::Tables,
        Subsystem::Executor,
        Subsystem::Planner,
        Subsystem::Network,
        Subsystem::Kernel,
        Subsystem::Other,
    ];

    /// A word for a class in style sheets.
    pub fn id(self) -> &'static str {
        match self {
            Subsystem::Wal => "wal",
            Subsystem::Buffers => "buffers",
            Subsystem::Locks => "locks",
            Subsystem::Transactions => "transactions",
            Subsystem::Tables => "tables",
            Subsystem::Executor => "executor",
            Subsystem::Planner => "planner",
            Subsystem::Network => "network",
            Subsystem::Kernel => "kernel",
            Subsystem::Other => "other",
        }
    }

    /// Name for people.
    pub fn words(self) -> &'static str {
        match self {
            Subsystem::Wal => "WAL",
            Subsystem::Buffers => "buffers and files",
            Subsystem::Locks => "locks",
            Subsystem::Transactions => "transactions and snapshots",
            Subsystem::Tables => "tables and indexes",
            Subsystem::Executor => "executor",
            Subsystem::Planner => "parser and planner",
            Subsystem::Network => "network and protocol",
            Subsystem::Kernel => "kernel",
            Subsystem::Other => "other",
        }
    }
}

/// Beginnings of names, by subsystem, with the directories below src/backend that most of them come from.
const TABLE: [(Subsystem, &str, &str); 8] = [
    (
        Subsystem::Wal,
        "access/transam/xlog*, postmaster/walwriter.c, replication",
        "XLog xlog Xlog issue_xlog_fsync CopyXLogRecordToWAL ReserveXLogInsertLocation GetXLogBuffer AdvanceXLInsertBuffer \
         WALInsertLock WaitXLogInsertions log_heap log_newpage heap_xlog WalWriter WalSnd WalRcv SyncRep pg_comp_crc32c \
         CheckPoint CreateCheckPoint UpdateMinRecoveryPoint",
    ),
    (
        Subsystem::Buffers,
        "storage/buffer, storage/smgr, storage/file, storage/aio, storage/freespace, storage/page",
        "ReadBuffer ReadRecentBuffer ReleaseBuffer ReleaseAndReadBuffer StartReadBuffer WaitReadBuffers Buffer Buf PinBuffer \
         UnpinBuffer PinBuffer_Locked UnlockReleaseBuffer LockBuffer ConditionalLockBuffer MarkBufferDirty IncrBufferRefCount \
         GetPrivateRefCount GetVictimBuffer InvalidateBuffer FlushBuffer SyncOneBuffer StrategyGetBuffer BgBufferSync \
         ExtendBufferedRel PrefetchBuffer GetBufferDescriptor GetLocalVictimBuffer LocalBuffer smgr mdread mdwrite mdextend \
         mdnblocks mdopen mdprefetch mdwriteback _mdfd FileRead FileWrite FileSync FileSize FilePrefetch FileAccess pgaio_ \
         read_stream_ fsm_ RecordPageWithFreeSpace GetPageWithFreeSpace visibilitymap_ Page pg_checksum_page ScheduleBufferTag \
         IssuePendingWritebacks BackgroundWriterMain pg_pread pg_pwrite",
    ),
    (
        Subsystem::Locks,
        "storage/lmgr",
        "Lock LWLock ConditionalLock UnlockRelation UnlockTuple ProcSleep ProcWakeup ProcLock ProcLockWakeup DeadLock \
         s_lock tas perform_spin_delay finish_spin_delay PredicateLock CheckForSerializable SetupLockInTable GrantLock UnGrantLock \
         CleanUpLock RemoveLocalLock FastPath XactLock Conditional SpeculativeInsertion ConditionVariable PGSemaphore \
         WaitOnLock VirtualXactLock",
    ),
    (
        Subsystem::Transactions,
        "access/transam, storage/ipc/procarray.c, utils/time",
        "CommitTransaction StartTransaction AbortTransaction CleanupTransaction RecordTransaction AssignTransactionId \
         TransactionId TransactionLog TransactionTree GetNewTransactionId GetCurrentTransaction GetSnapshotData \
         GetTransactionSnapshot GetCatalogSnapshot Snapshot PushActiveSnapshot PopActiveSnapshot PushCopiedSnapshot \
         RegisterSnapshot UnregisterSnapshot ProcArray XidInMVCCSnapshot HeapTupleSatisfies SetHintBits MultiXact SimpleLru \
         CLOG SUBTRANS SubTrans AtEOXact PreCommit ResourceOwner AtCommit GlobalVis ComputeXid SetTransaction CallXactCallbacks \
         finish_xact_command start_xact_command CommitSubTransaction",
    ),
    (
        Subsystem::Tables,
        "access/heap, access/nbtree, access/index, access/common and other index methods",
        "heap_ heapam_ heapgettup heapgetpage heap_page RelationPutHeapTuple RelationGetBufferForTuple HeapTuple HeapDetermine \
         HeapSatisfies table_ _bt_ bt btree index_ systable_ toast_ detoast_ _hash_ hashgettuple hashinsert hashbeginscan gin gist brin spg nocachegetattr \
         slot_deform heap_deform heap_form fill_val simple_heap compute_new_xmax UpdateXmaxHintBits tuple_lock \
         lazy_ vacuum_ pgstat_count_heap vac_",
    ),
    (
        Subsystem::Executor,
        "executor, tcop, utils/adt, utils/fmgr, utils/sort, commands/trigger.c, pl",
        "Exec exec_ standard_Executor Executor Portal ProcessQuery ProcessUtility standard_ProcessUtility PortalRun \
         CreateExecutorState FreeExecutorState CreateExprContext FreeExprContext ReScanExprContext EvalPlanQual tts_ slot_ \
         MakeTupleTableSlot tuplesort_ tuplestore_ tuplehash_ agg_ advance_ finalize_ Interpret fmgr_ FunctionCall \
         DirectFunctionCall OidFunctionCall InputFunctionCall OutputFunctionCall SPI_ _SPI plpgsql_ ri_ RI_ AfterTrigger \
         int2 int4 int8 float4 float8 numeric_ add_var mul_var text bpchar varchar date_ timestamp pg_lltoa \
         pg_ltoa pg_ultoa pg_strtoint CreateQueryDesc FreeQueryDesc ScanQuery IndexNext SeqNext BitmapHeap MJ MultiExec \
         UpdateActiveSnapshot CreateDestReceiver ExplainOne InstrStartNode InstrStopNode index_getnext_slot_exec llvm",
    ),
    (
        Subsystem::Planner,
        "parser, optimizer, rewrite, utils/cache/plancache.c, nodes",
        "raw_parser base_yy core_yy parse transform standard_planner planner subquery_planner grouping_planner query_planner \
         make_ create_ cost_ add_path build_ pg_analyze pg_plan pg_parse pg_rewrite QueryRewrite fireRIRrules \
         AcquireRewriteLocks choose_custom_plan RevalidateCachedQuery GetCachedPlan ReleaseCachedPlan BuildCachedPlan \
         CheckCachedPlan AcquireExecutorLocks scanner_ ScanKeyword expression_ eval_const simplify_ preprocess_ set_plan_ \
         set_rel set_base set_cheapest set_append get_relation_info relation_excluded match_ clause estimate_ SS_ find_ \
         extract_ restriction generate_ deconstruct_ distribute_ examine_ get_op get_func get_typ get_sort get_cheapest get_parameterized get_join get_eclass fix_ func_get coerce_ addRTE addRange \
         _copy copyObject equal _equal query_tree expand_ is_parallel max_parallel pull_ contain_ optimize_ flatten_ \
         makeVar makeNode nodeToString",
    ),
    (
        Subsystem::Network,
        "libpq, access/common/printtup.c, tcop/dest.c",
        "pq_ internal_ socket_ secure_ be_tls be_gssapi SSL_ ssl3_ tls_ EVP_ AES_ aes_ BIO_ printtup SendRowDescription \
         SocketBackend ReadCommand EndCommand ReadyForQuery NullCommand BeginCommand WaitEventSetWait WaitLatch \
         ModifyWaitEvent AddWaitEvent forbidden_in_wal send_message recv send ProcessClientReadInterrupt ClientAuthentication",
    ),
];

/// The table as rows: subsystem, directories, beginnings.
pub fn table() -> impl Iterator<Item = (Subsystem, &'static str, &'static str)> {
    TABLE.into_iter()
}

/// The subsystem of a sample; frames are the outermost first.
pub fn from_frames(frames: &[String]) -> Subsystem {
    match frames.last() {
        Some(innermost) if innermost.ends_with(KERNEL) => Subsystem::Kernel,
        _ => frames.iter().rev().find_map(|name| of_name(name)).unwrap_or(Subsystem::Other),
    }
}

/// The subsystem of a function, if its name tells.
pub fn of_name(name: &str) -> Option<Subsystem> {
    if name.ends_with(KERNEL) {
        return Some(Subsystem::Kernel);
    }
    let rows = TABLE.iter().flat_map(|(subsystem, _, beginnings)| {
        beginnings.split_ascii_whitespace().map(move |beginning| (*subsystem, beginning))
    });
    let fitting = rows.filter(|(_, beginning)| name.starts_with(beginning));
    fitting.max_by_key(|(_, beginning)| beginning.len()).map(|(subsystem, _)| subsystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_tell_whose_time_it_was() {
        for (frames, expected) in [
            ("main;PostgresMain;exec_simple_query;XLogInsertRecord", Subsystem::Wal),
            (
                "PostgresMain;PortalRun;ExecScan;heap_getnextslot;ReadBufferExtended;PinBuffer",
                Subsystem::Buffers,
            ),
            ("PostgresMain;ExecLockRows;LockBuffer;LWLockAcquire", Subsystem::Locks),
            ("PostgresMain;PortalRun;ExecScan;LockBuffer", Subsystem::Buffers),
            ("PostgresMain;CommitTransaction;ProcArrayEndTransaction", Subsystem::Transactions),
            ("PostgresMain;PortalRun;ExecScan;index_getnext_tid;_bt_search;_bt_compare", Subsystem::Tables),
            ("PostgresMain;PortalRun;ExecInterpExpr;int4pl", Subsystem::Executor),
            // An allocation is the time of whoever asked for it.
            ("PostgresMain;pg_plan_queries;standard_planner;palloc;AllocSetAlloc", Subsystem::Planner),
            // So is a look into a hash table.
            (
                "PortalRun;ExecScan;ReadBuffer_common;BufTableLookup;hash_search_with_hash_value;hash_bytes",
                Subsystem::Buffers,
            ),
            ("PostgresMain;LockAcquire;get_hash_value;uint32_hash", Subsystem::Locks),
            ("PostgresMain;socket_flush;secure_write;__memcpy_avx", Subsystem::Network),
            ("PostgresMain;secure_read;epoll_wait;do_epoll_wait_[k]", Subsystem::Kernel),
            ("main;PostmasterMain", Subsystem::Other),
            ("[postgres]", Subsystem::Other),
        ] {
            let frames: Vec<String> = frames.split(';').map(str::to_string).collect();
            assert_eq!(from_frames(&frames), expected, "{frames:?}");
        }
    }

    #[test]
    fn no_beginning_is_in_two_rows() {
        let mut all: Vec<&str> = TABLE.iter().flat_map(|(_, _, all)| all.split_ascii_whitespace()).collect();
        all.sort_unstable();
        let twice: Vec<&[&str]> = all.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
