//! The hot path allocates nothing: a transaction of a built-in script, once its buffers have grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use workload::tpcb::{TpcbRows, TpcbScript, TpcbTable};
use workload::{Action, BoundParameter, Bundle, Emulator, Prng};

/// The system's allocator, counting per thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a thread-local number only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Runs one transaction under both protocols.
fn transaction(emulator: &mut Emulator, bundle: &Bundle, out: &mut Vec<u8>) {
    let program = &bundle.programs[0];
    emulator.begin(program);
    while let Action::Send { statement } = emulator.step(program).expect("built-in scripts run") {
        out.clear();
        emulator.render(program, statement, out).expect("each variable has a value");
        for variable in &program.statements[statement].parameters {
            assert_eq!(emulator.parameter(*variable, out), BoundParameter::Text);
        }
    }
}

#[test]
fn transactions_of_builtin_scripts_allocate_nothing() {
    let defines = BTreeMap::from([("scale".to_owned(), "100".to_owned())]);
    let own = "\\set d 1.5 * random_gaussian(1, 100, 2.5)\n\\if :d > 60\n\\set d :d / 3\n\\endif\nselect :d;";
    for source in TpcbScript::ALL.map(TpcbScript::source).into_iter().chain([own]) {
        let bundle = Bundle::compile(&[("script", source, 1)], &defines).expect("compiles");
        let mut emulator = Emulator::new(&bundle, Prng::seed(1), 0, &defines);
        let mut out = Vec::with_capacity(4096);
        transaction(&mut emulator, &bundle, &mut out);
        let before = allocations();
        for _ in 0..1000 {
            transaction(&mut emulator, &bundle, &mut out);
            emulator.rewind();
        }
        assert_eq!(allocations(), before, "{source}");
    }
}

#[test]
fn rows_allocate_once_per_branch() {
    let mut rows = TpcbRows::new(TpcbTable::Accounts, 3, 0..300_000);
    let mut out = Vec::with_capacity(1 << 17);
    rows.fill(&mut out, 1 << 16);
    out.clear();
    let before = allocations();
    while rows.fill(&mut out, 1 << 16) > 0 {
        out.clear();
    }
    assert_eq!(allocations() - before, 2, "at the second and the third branch");
}
