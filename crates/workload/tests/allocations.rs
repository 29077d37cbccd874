//! The hot path allocates nothing: a transaction of a built-in script, once its buffers have grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use generator::{Choice, Directory, DrawsContents, Instance, draws_reference, draws_sha256};
use workload::tpcb::{TpcbRows, TpcbScript, TpcbTable};
use workload::{Action, BoundParameter, Bundle, Clock, Drawer, Emulator, Prng};

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
            emulator.rewind(&bundle.programs[0]);
        }
        assert_eq!(allocations(), before, "{source}");
    }
}

/// A directory with transactions that read and write a key, as YCSB's do.
fn instance() -> Arc<Instance> {
    let manifest = "format = 1\nname = \"t\"\ntitle = \"T\"\nabout = \"tests\"\nsource = \"own\"\n\
                    licence = \"MIT OR Apache-2.0\"\nscale = \"1,000 rows\"\n\
                    [[table]]\nname = \"t\"\nrows = \"1000 * scale\"\n[table.columns]\n\
                    k = \"concat('user', fnv64(row))\"\n\
                    [[transaction]]\nname = \"update\"\nfacts = {sum = \"f * 2\"}\n[transaction.params]\n\
                    key = \"t.k[zipf_ycsb(rows(t))]\"\nf = \"uniform(0, 9)\"\nvalue = \"ascii(100)\"\n\
                    price = \"decimal(uniform(0, 999), 2)\"\nday = \"date('2024-01-01') + uniform(0, 300)\"\n\
                    [variants]\nplain = {weights = {update = 1}}\n";
    let files = [
        ("workload.toml", manifest),
        ("schema.sql", "create table t (k text);"),
        ("transactions/update.sql", UPDATE),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let directory = Directory::new(files.into()).expect("a directory");
    Arc::new(Instance::new(&directory, &Choice { scale: 1, ..Choice::default() }).expect("an instance"))
}

const UPDATE: &str = "begin;\nselect * from t where k = :key;\n\
                      update t set field:f = :value, p = :price, d = :day where k = :key;\nend;";

/// A directory with captured rows and a loop.
fn captured() -> Arc<Instance> {
    let manifest = "format = 1\nname = \"t\"\ntitle = \"T\"\ndata = \"existing\"\n\
                    [[transaction]]\nname = \"pay\"\ndraws = \"pay\"\ndraws_order = \"once\"\n[transaction.params]\n\
                    key = \"choose(chance(0.3), near(draw.k, 1, 100000), draw.k)\"\nname = \"draw.name\"\n\
                    price = \"draw.price\"\nat = \"now() + seconds(draw.dt)\"\n\
                    [transaction.each.items]\nitem = \"draw.item\"\n";
    let texts = [("workload.toml", manifest), ("transactions/pay.sql", PAY)];
    let mut texts: BTreeMap<String, String> =
        texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    // Rows are dealt in order, and a longer text needs a larger buffer.
    let rows = |row: u32| format!("{}\tname-{}\t{row}.25\t-{row}\n", row * row % 9973, 10_000 + row);
    let items = |row: u32| format!("{row}\t{row}\n{row}\t{}\n", row + 1);
    let mut contents = DrawsContents::new();
    for (file, columns, rows) in [
        ("draws/pay.zst", "k:int\tname:text\tprice:decimal\tdt:int", &rows as &dyn Fn(u32) -> String),
        ("draws/pay.items.zst", "row:int\titem:int", &items),
    ] {
        let text = format!("pgdyno draws 1\n{columns}\n{}", (0..10_000).map(rows).collect::<String>());
        let packed = zstd::encode_all(text.as_bytes(), 1).expect("it is packed");
        texts.insert(file.to_owned(), draws_reference(&packed));
        contents.insert(draws_sha256(&packed), packed.into());
    }
    let directory = Directory::new(texts).and_then(|directory| directory.with_draws(&contents));
    let directory = directory.expect("a directory");
    Arc::new(Instance::new(&directory, &Choice { scale: 1, ..Choice::default() }).expect("an instance"))
}

const PAY: &str = "-- pgdyno: extended\nbegin;\nupdate t set name = :name, price = :price, at = :at where k = :key;\n\
                   \\set n 2\n\\repeat items :n\ninsert into i values (:key, :item);\n\\endrepeat\nend;";

#[test]
fn transactions_with_captured_rows_allocate_nothing() {
    let defines = BTreeMap::from([("scale".to_owned(), "1".to_owned())]);
    let bundle = Bundle::compile_directory(&[("pay", PAY, 1)], &defines, &captured()).expect("compiles");
    let drawer = Drawer { client: 0, n_clients: 1, seed: 1, clock: Clock(|| 1_700_000_000_000_000) };
    let mut emulator = Emulator::new(&bundle, Prng::seed(1), 0, &defines).drawing(&bundle, drawer);
    let (mut out, mut facts) = (Vec::with_capacity(4096), vec![0; bundle.programs[0].facts.len()]);
    for _ in 0..1000 {
        transaction_of(&mut emulator, &bundle, &mut facts, &mut out);
    }
    let before = allocations();
    for _ in 0..1000 {
        transaction_of(&mut emulator, &bundle, &mut facts, &mut out);
        emulator.rewind(&bundle.programs[0]);
    }
    assert_eq!(allocations(), before);
}

/// Runs one transaction of a directory under both protocols.
fn transaction_of(emulator: &mut Emulator, bundle: &Bundle, facts: &mut [u64], out: &mut Vec<u8>) {
    let program = &bundle.programs[0];
    emulator.begin(program);
    while let Action::Send { statement } = emulator.step(program).expect("it runs") {
        out.clear();
        let mut statement = &program.statements[statement];
        if let Some(glued) = &statement.glued {
            statement = &glued.variants[emulator.variant(glued).expect("it is within its range")];
        }
        emulator.render_pieces(program, &statement.pieces, out).expect("each variable has a value");
        for variable in &statement.parameters {
            assert_eq!(emulator.parameter(*variable, out), BoundParameter::Text);
        }
    }
    emulator.committed(program, facts).expect("facts are computed");
}

#[test]
fn transactions_with_parameters_allocate_nothing() {
    let defines = BTreeMap::from([("scale".to_owned(), "1".to_owned())]);
    let bundle =
        Bundle::compile_directory(&[("update", UPDATE, 1)], &defines, &instance()).expect("compiles");
    let drawer = Drawer { client: 0, n_clients: 1, seed: 1, clock: Clock::default() };
    let mut emulator = Emulator::new(&bundle, Prng::seed(1), 0, &defines).drawing(&bundle, drawer);
    let (mut out, mut facts) = (Vec::with_capacity(4096), vec![0; bundle.programs[0].facts.len()]);
    for _ in 0..1000 {
        transaction_of(&mut emulator, &bundle, &mut facts, &mut out);
    }
    let before = allocations();
    for _ in 0..1000 {
        transaction_of(&mut emulator, &bundle, &mut facts, &mut out);
        emulator.rewind(&bundle.programs[0]);
    }
    assert_eq!(allocations(), before);
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
