//! Files of tables mapped into the session's memory, so that bytes of a page are copied without a
//! system call.
//!
//! ```text
//!   segment (1 GB) of a file ──mmap, read only──▶ address ──copy, guarded──▶ the session's memory
//!                                                    └─ the file ends before, or cannot be read:
//!                                                       SIGBUS ──▶ zeros, "not copied", unmapped
//! ```
//!
//! Addresses are those of a whole segment, also of what lies past its end: a file may grow. Making
//! the system's tables that lead from an address to a page costs more than a system call that
//! copies from it, and less if it is done for many pages at a time. So the pages of a region are
//! counted that were copied by such calls, and after [`WORTH_MAPPING`] of them the region is mapped
//! if all of it is in memory. A session that reads a few rows maps nothing.
//!
//! Nothing is known of what is copied. It may be a page that is being written, an older one, or
//! damaged; the caller verifies it as it does a page of a disk.
//!
//! *Bytes that are not there*, because the file was truncated or the disk has lost them, are a
//! fault of a read of them, which [`copy_guarded`] survives. Then the page is read by PostgreSQL's
//! means, which raise its errors.
//!
//! *Files that are dropped.* A mapping does not keep their space: PostgreSQL truncates every
//! segment before it removes it. What is read of such a mapping is a fault, as above. Nor does a
//! mapping hinder truncation. But it keeps the file system busy. So the files of a relation are
//! unmapped when the session hears that the relation has changed, which it does at its next
//! statement; also where the file is still the same: it is mapped again if it is read as often.
//!
//! *Memory.* The pages are the operating system's, and shared. A session's own are the tables that
//! lead to them, a page for each region, and for each segment two that lead to these. With more
//! tables or files than [`Most`] says all is unmapped, and counted anew.
//!
//! Only the session's main thread comes here.

use std::cell::Cell;
use std::io::Error;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use pgrx::pg_sys;

use super::guarded_copy::{SMALLEST_PAGE, copy_guarded, handle_faults, system_page_bytes};
use super::page::PAGE_BYTES;

/// What PostgreSQL stores in one file of the operating system.
const SEGMENT_BYTES: usize = pg_sys::RELSEG_SIZE as usize * PAGE_BYTES;
/// What is mapped at once: the addresses that one page of page tables leads to.
const REGION_BYTES: usize = 2 << 20;
const REGIONS: usize = SEGMENT_BYTES.div_ceil(REGION_BYTES);
/// Pages of page tables that lead to those of a segment's regions: it may begin amid what one of
/// them leads to.
const TABLES_OF_A_SEGMENT: usize = 2;
/// Mapping a region costs about as much as so many copies by system calls.
const WORTH_MAPPING: u8 = 12;
/// Instead of a number of copies.
const MAPPED: u8 = u8::MAX;

/// What a session maps at most.
#[derive(Clone, Copy)]
struct Most {
    /// Pages of page tables.
    tables: usize,
    files: usize,
}

impl Most {
    /// 4 MB of page tables; a kilobyte for each file.
    const OF_A_SESSION: Most = Most {
        tables: 1_024,
        files: 1_024,
    };
}

/// One file of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Whose file it is.
    pub relation: pg_sys::Oid,
    pub tablespace: u32,
    pub database: u32,
    pub file: u32,
    pub number: u32,
}

/// A segment of which pages are copied.
struct File {
    /// How often pages of each region were copied by system calls; [`MAPPED`] once it is mapped.
    copies: [u8; REGIONS],
    /// Where the segment is mapped, once a region is.
    map: Option<Map>,
}

impl File {
    const NEW: File = File {
        copies: [0; REGIONS],
        map: None,
    };

    fn mapped_regions(&self) -> usize {
        let is_mapped = |&&copies: &&u8| copies == MAPPED;
        self.copies.iter().filter(is_mapped).count()
    }

    /// The address of the page at this offset, if its region is mapped.
    fn address(&self, offset: usize) -> Option<NonNull<u8>> {
        let map = self.map.as_ref()?;
        let is_mapped = self.copies.get(offset / REGION_BYTES) == Some(&MAPPED);
        // SAFETY: regions are those of the segment, which is mapped whole.
        is_mapped.then(|| unsafe { map.start.add(offset) })
    }

    /// Counts a copy of a page. Whether its region is now worth mapping.
    fn count(&mut self, offset: usize) -> bool {
        let copies = match self.copies.get_mut(offset / REGION_BYTES) {
            Some(copies) if *copies < WORTH_MAPPING => copies,
            // Mapped, but reads wait for a disk just now.
            _ => return false,
        };
        *copies += 1;
        let is_enough = *copies >= WORTH_MAPPING;
        if is_enough {
            *copies = 0;
        }
        is_enough
    }

    /// Maps the region of this offset, if all of it is in memory; `open` gives a descriptor of the
    /// file, and its bytes. `None` if the operating system does not allow it.
    fn map(&mut self, offset: usize, open: impl FnOnce() -> (RawFd, usize)) -> Option<bool> {
        let (descriptor, bytes) = open();
        let region = offset / REGION_BYTES;
        let start = region * REGION_BYTES;
        let end = (start + REGION_BYTES).min(bytes);
        let map = match &mut self.map {
            Some(map) => map,
            none => none.insert(Map::of(descriptor)?),
        };
        let is_there = start < end && map.is_in_memory(start..end);
        let is_mapped = is_there && map.populate(start..end)?;
        if is_mapped {
            self.copies[region] = MAPPED;
        }
        Some(is_mapped)
    }
}

/// The addresses of a segment.
struct Map {
    start: NonNull<u8>,
}

impl Map {
    fn of(descriptor: RawFd) -> Option<Map> {
        // No advice that reads are random: Linux would count none of them as a use of the page,
        // and give up such pages first.
        // SAFETY: a new mapping where there is none.
        let start = unsafe {
            let (anywhere, shared, read) =
                (std::ptr::null_mut(), libc::MAP_SHARED, libc::PROT_READ);
            libc::mmap(anywhere, SEGMENT_BYTES, read, shared, descriptor, 0)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = NonNull::new(start.cast())?;
        Some(Map { start })
    }

    /// Whether the operating system has all of a range in memory. It begins with a region.
    fn is_in_memory(&self, range: Range<usize>) -> bool {
        let mut pages = [0_u8; REGION_BYTES / SMALLEST_PAGE];
        // SAFETY: the range is a part of the mapping, and there is a byte for each page of it.
        let code = unsafe {
            let start = self.start.add(range.start).as_ptr().cast();
            libc::mincore(start, range.len(), pages.as_mut_ptr())
        };
        let count = range.len().div_ceil(system_page_bytes());
        code == 0 && pages.iter().take(count).all(|page| page & 1 == 1)
    }

    /// Makes the page tables of a range, which begins with a region. `None` if the operating
    /// system cannot do it.
    fn populate(&self, range: Range<usize>) -> Option<bool> {
        // SAFETY: the range is a part of the mapping.
        let code = unsafe {
            let start = self.start.add(range.start).as_ptr().cast();
            libc::madvise(start, range.len(), libc::MADV_POPULATE_READ)
        };
        let is_unknown = code != 0 && Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        (!is_unknown).then_some(code == 0)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and no reference to it is ever made.
        unsafe { libc::munmap(self.start.as_ptr().cast(), SEGMENT_BYTES) };
    }
}

/// The segments of which a session has copied pages.
pub(super) struct FileMaps {
    most: Most,
    files: Vec<(Segment, File)>,
    /// The one that was found last: pages of a row are mostly those of one segment.
    last: Cell<usize>,
    /// Regions that are mapped.
    regions: usize,
    /// The operating system does not allow it.
    is_impossible: bool,
}

impl Default for FileMaps {
    fn default() -> FileMaps {
        FileMaps::of_at_most(Most::OF_A_SESSION)
    }
}

impl FileMaps {
    fn of_at_most(most: Most) -> FileMaps {
        FileMaps {
            most,
            files: Vec::new(),
            last: Cell::new(0),
            regions: 0,
            is_impossible: false,
        }
    }

    /// Copies ranges of the page at this offset of a segment to the same places of `page`, whatever
    /// they hold, if it is mapped.
    pub fn copy(
        &mut self,
        segment: Segment,
        offset: usize,
        ranges: &[Range<usize>],
        page: &mut [u8; PAGE_BYTES],
    ) -> bool {
        let Some(address) = self.address(segment, offset) else {
            return false;
        };
        // SAFETY: the page lies in the mapping.
        let is_copied = unsafe { copy_guarded(address, ranges, page) };
        if !is_copied {
            // There may be zeros in it.
            self.forget();
        }
        is_copied
    }

    /// The address of the page at this offset of a segment, if that is mapped.
    pub fn address(&self, segment: Segment, offset: usize) -> Option<NonNull<u8>> {
        let (_, file) = self.files.get(self.find(segment)?)?;
        file.address(offset)
    }

    /// Counts a page that was copied by a system call, and maps its region if that has happened
    /// often enough. `open` gives a descriptor of the segment, and its bytes.
    pub fn count(
        &mut self,
        segment: Segment,
        offset: usize,
        open: impl FnOnce() -> (RawFd, usize),
    ) {
        if self.is_impossible {
            return;
        }
        if self.find(segment).is_none() {
            if self.files.len() >= self.most.files {
                self.forget();
            }
            // Nothing is set aside for rows by index, and they do without.
            if self.files.try_reserve(1).is_err() {
                return;
            }
            self.files.push((segment, File::NEW));
        }
        let Some((_, file)) = self.find(segment).and_then(|at| self.files.get_mut(at)) else {
            return;
        };
        if !file.count(offset) {
            return;
        }
        let is_mapped = match handle_faults() {
            true => file.map(offset, open),
            false => None,
        };
        self.is_impossible = is_mapped.is_none();
        self.regions += usize::from(is_mapped == Some(true));
        if self.tables() > self.most.tables {
            self.forget();
        }
    }

    fn find(&self, segment: Segment) -> Option<usize> {
        let is_it = |at: usize| {
            self.files
                .get(at)
                .is_some_and(|(found, _)| *found == segment)
        };
        let last = self.last.get();
        if is_it(last) {
            return Some(last);
        }
        let found = self.files.iter().position(|(found, _)| *found == segment)?;
        self.last.set(found);
        Some(found)
    }

    /// Pages of page tables that lead to what is mapped, at most.
    fn tables(&self) -> usize {
        let is_mapped = |(_, file): &&(Segment, File)| file.map.is_some();
        let segments = self.files.iter().filter(is_mapped).count();
        self.regions + TABLES_OF_A_SEGMENT * segments
    }

    /// Unmaps the files of a relation, or all (`None`).
    pub fn forget_relation(&mut self, relation: Option<pg_sys::Oid>) {
        let Some(relation) = relation else {
            return self.forget();
        };
        let gone = self
            .files
            .extract_if(.., |(segment, _)| segment.relation == relation);
        let regions: usize = gone.map(|(_, file)| file.mapped_regions()).sum();
        self.regions -= regions;
    }

    fn forget(&mut self) {
        self.files.clear();
        self.regions = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    const SEGMENT: Segment = Segment {
        relation: pg_sys::InvalidOid,
        tablespace: 1_663,
        database: 5,
        file: 16_400,
        number: 0,
    };

    /// A file of so many pages, each full of its number plus one, that has no name any more.
    fn file_of(pages: u8) -> File {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("howdah-file-map-{}-{serial}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = File::create_new(&path).expect("a temporary file");
        std::fs::remove_file(&path).expect("it can be removed");
        write_pages(&mut file, 0..pages);
        file
    }

    fn write_pages(file: &mut File, pages: Range<u8>) {
        let at = u64::from(pages.start) * PAGE_BYTES as u64;
        file.seek(std::io::SeekFrom::Start(at)).expect("seek");
        for page in pages {
            file.write_all(&[page + 1; PAGE_BYTES]).expect("written");
        }
    }

    fn readable(file: &File) -> File {
        File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("opened for reading")
    }

    /// Whether the process has mapped any of a file.
    fn has_mapped(file: &File) -> bool {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let name = std::fs::read_link(link).expect("its name");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
        let name = name.to_str().expect("UTF-8");
        maps.lines().any(|line| line.ends_with(name))
    }

    /// Tests run in threads, of which one may copy at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static COPYING: Mutex<()> = Mutex::new(());
        COPYING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Two ranges of a page, if it is mapped and they can be copied.
    fn copied(maps: &mut FileMaps, page: usize) -> Option<[u8; 2]> {
        copied_of(maps, SEGMENT, page)
    }

    fn copied_of(maps: &mut FileMaps, segment: Segment, page: usize) -> Option<[u8; 2]> {
        let mut copy = [0xFF; PAGE_BYTES];
        let ranges = [100..200, 5_000..PAGE_BYTES];
        let _alone = alone();
        let is_copied = maps.copy(segment, page * PAGE_BYTES, &ranges, &mut copy);
        assert!(copy[..100].iter().all(|&byte| byte == 0xFF));
        assert!(copy[200..5_000].iter().all(|&byte| byte == 0xFF));
        is_copied.then(|| {
            let same = |range: &Range<usize>| {
                let bytes = &copy[range.clone()];
                assert!(bytes.iter().all(|byte| byte == &bytes[0]));
                bytes[0]
            };
            ranges.each_ref().map(same)
        })
    }

    /// As many copies by system calls as make a region worth mapping, of a file of so many bytes.
    fn count(maps: &mut FileMaps, file: &File, page: usize, bytes: usize) {
        count_of(maps, SEGMENT, (file, bytes), page);
    }

    fn count_of(maps: &mut FileMaps, segment: Segment, (file, bytes): (&File, usize), page: usize) {
        for _ in 0..WORTH_MAPPING {
            assert_eq!(maps.address(segment, page * PAGE_BYTES), None);
            maps.count(segment, page * PAGE_BYTES, || (file.as_raw_fd(), bytes));
        }
    }

    #[test]
    fn a_region_is_mapped_when_enough_of_it_was_copied_and_all_of_it_is_there() {
        let reader = readable(&file_of(4));
        let mut maps = FileMaps::default();
        assert_eq!(copied(&mut maps, 0), None);
        // More than the file has: not all of it is there.
        count(&mut maps, &reader, 0, PAGE_BYTES * 5);
        assert_eq!(copied(&mut maps, 0), None);
        count(&mut maps, &reader, 2, PAGE_BYTES * 4);
        assert_eq!(copied(&mut maps, 0), Some([1, 1]));
        assert_eq!(copied(&mut maps, 3), Some([4, 4]));
        // The next region.
        assert_eq!(copied(&mut maps, REGION_BYTES / PAGE_BYTES), None);
    }

    #[test]
    fn bytes_that_a_file_lost_or_never_had_are_not_copied_and_those_it_got_are() {
        let mut file = file_of(4);
        let reader = readable(&file);
        let mut maps = FileMaps::default();
        count(&mut maps, &reader, 0, PAGE_BYTES * 4);
        assert_eq!(copied(&mut maps, 4), None);
        assert!(
            maps.files.is_empty(),
            "a mapping with zeros in it is not used again"
        );

        count(&mut maps, &reader, 0, PAGE_BYTES * 4);
        file.set_len(PAGE_BYTES as u64 * 2).expect("truncated");
        assert_eq!(copied(&mut maps, 1), Some([2, 2]));
        assert_eq!(copied(&mut maps, 3), None);

        // A file that grows while it is mapped.
        count(&mut maps, &reader, 0, PAGE_BYTES * 2);
        write_pages(&mut file, 2..6);
        assert_eq!(copied(&mut maps, 5), Some([6, 6]));
        assert_eq!(maps.regions, 1);
    }

    #[test]
    fn a_fault_is_noted_for_its_own_copy_only() {
        let reader = readable(&file_of(1));
        let mut maps = FileMaps::default();
        for _ in 0..3 {
            count(&mut maps, &reader, 0, PAGE_BYTES);
            assert_eq!(copied(&mut maps, 0), Some([1, 1]));
            assert_eq!(copied(&mut maps, 7), None);
        }
    }

    /// Tests that fill page tables run one after the other: the system counts those of a process.
    fn filling() -> MutexGuard<'static, ()> {
        static FILLING: Mutex<()> = Mutex::new(());
        FILLING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page_table_kilobytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:"));
        let kilobytes = line.expect("VmPTE").trim().trim_end_matches(" kB");
        kilobytes.parse().expect("a number")
    }

    #[test]
    fn page_tables_of_many_segments_are_bounded() {
        let _filling = filling();
        let reader = readable(&file_of(2));
        let mut maps = FileMaps::default();
        let (before, mut most) = (page_table_kilobytes(), 0);
        for number in 0..Most::OF_A_SESSION.files as u32 {
            let segment = Segment { number, ..SEGMENT };
            count_of(&mut maps, segment, (&reader, PAGE_BYTES * 2), 0);
            most = most.max(page_table_kilobytes().saturating_sub(before));
            assert!(maps.tables() <= Most::OF_A_SESSION.tables);
        }
        // A page each; the other tests may need some at the same time.
        let bound = Most::OF_A_SESSION.tables * system_page_bytes() / 1024 + 1_024;
        assert!(most <= bound, "{most} kB of page tables");
        assert!(most >= bound / 4, "{most} kB of page tables");
    }

    #[test]
    fn page_tables_are_bounded() {
        let _filling = filling();
        let file = file_of(1);
        let reader = readable(&file);
        let mut maps = FileMaps::default();
        let most_regions = Most::OF_A_SESSION.tables - 2 * TABLES_OF_A_SEGMENT;
        let mut most = 0;
        for number in 0..3 {
            let segment = Segment { number, ..SEGMENT };
            for region in 0..REGIONS {
                // Sparse, so that the system needs memory for one region only.
                file.set_len((region * REGION_BYTES + PAGE_BYTES) as u64)
                    .expect("resized");
                let (offset, mut copy) = (region * REGION_BYTES, [0xFF; PAGE_BYTES]);
                let mut first = [0xFF; PAGE_BYTES];
                reader
                    .read_exact_at(&mut first, offset as u64)
                    .expect("the page is in memory");
                for _ in 0..WORTH_MAPPING {
                    let open = || (reader.as_raw_fd(), offset + PAGE_BYTES);
                    maps.count(segment, offset, open);
                }
                let is_full = most == most_regions && maps.regions == 0;
                let (ranges, _alone) = ([0..4_096, 4_096..PAGE_BYTES], alone());
                assert_eq!(maps.copy(segment, offset, &ranges, &mut copy), !is_full);
                assert!(is_full || copy == first);
                let is_mapped = |file: &super::File| {
                    file.copies
                        .iter()
                        .filter(|&&copies| copies == MAPPED)
                        .count()
                };
                assert_eq!(
                    maps.files
                        .iter()
                        .map(|(_, file)| is_mapped(file))
                        .sum::<usize>(),
                    maps.regions
                );
                assert!(maps.regions <= most_regions);
                most = most.max(maps.regions);
            }
        }
        assert_eq!(most, most_regions);
    }

    /// Maps the first region of each of these files, and looks at what is copied of it.
    fn map_all(maps: &mut FileMaps, files: &[(Segment, File)]) {
        for (number, (segment, file)) in files.iter().enumerate() {
            let page = number % 2;
            count_of(maps, *segment, (file, PAGE_BYTES * 2), page);
            let byte = page as u8 + 1;
            assert_eq!(copied_of(maps, *segment, page), Some([byte, byte]));
            assert!(has_mapped(file));
        }
    }

    #[test]
    fn files_are_bounded_and_those_forgotten_are_unmapped_and_may_be_mapped_again() {
        let files: Vec<(Segment, File)> = (0..7)
            .map(|file| (Segment { file, ..SEGMENT }, readable(&file_of(2))))
            .collect();
        let most = Most {
            tables: 100,
            files: 3,
        };
        let mut maps = FileMaps::of_at_most(most);
        for _ in 0..2 {
            map_all(&mut maps, &files[..3]);
            assert_eq!((maps.files.len(), maps.regions), (3, 3));
            // No copy of a fourth file is counted before the three are forgotten.
            let (segment, file) = &files[3];
            maps.count(*segment, 0, || (file.as_raw_fd(), PAGE_BYTES * 2));
            assert_eq!((maps.files.len(), maps.regions), (1, 0));
            for (segment, file) in &files[..3] {
                assert!(!has_mapped(file));
                assert_eq!(copied_of(&mut maps, *segment, 0), None);
            }
            maps.forget();
        }
        for _ in 0..3 {
            map_all(&mut maps, &files);
            assert!(maps.files.len() <= most.files);
            let mapped = files.iter().filter(|(_, file)| has_mapped(file)).count();
            assert_eq!(mapped, maps.regions);
            maps.forget();
        }
    }

    #[test]
    fn the_files_of_a_relation_that_changes_are_unmapped_and_no_others() {
        let of = |relation: u32| (pg_sys::Oid::from(relation), readable(&file_of(2)));
        let files = [of(20_000), of(20_001), of(20_000), of(20_002)];
        let files: Vec<(Segment, File)> = (0..)
            .zip(files)
            .map(|(file, (relation, reader))| {
                let segment = Segment {
                    relation,
                    file,
                    ..SEGMENT
                };
                (segment, reader)
            })
            .collect();
        let mut maps = FileMaps::default();
        let mapped = || -> Vec<bool> { files.iter().map(|(_, file)| has_mapped(file)).collect() };
        for _ in 0..2 {
            map_all(&mut maps, &files);
            maps.forget_relation(Some(20_003.into()));
            assert_eq!(maps.regions, 4);
            maps.forget_relation(Some(20_000.into()));
            assert_eq!(mapped(), [false, true, false, true]);
            assert_eq!((maps.files.len(), maps.regions), (2, 2));
            assert_eq!(copied_of(&mut maps, files[0].0, 0), None);
            assert_eq!(copied_of(&mut maps, files[3].0, 0), Some([1, 1]));
            maps.forget_relation(None);
            assert_eq!((mapped(), maps.regions), (vec![false; 4], 0));
        }
    }

    #[test]
    fn a_region_too_many_unmaps_all_files() {
        let files: Vec<(Segment, File)> = (0..3)
            .map(|file| (Segment { file, ..SEGMENT }, readable(&file_of(2))))
            .collect();
        let most = Most {
            tables: 2 + 2 * TABLES_OF_A_SEGMENT,
            files: 100,
        };
        let mut maps = FileMaps::of_at_most(most);
        for _ in 0..2 {
            map_all(&mut maps, &files[..2]);
            let (segment, file) = &files[2];
            count_of(&mut maps, *segment, (file, PAGE_BYTES * 2), 0);
            assert_eq!((maps.files.len(), maps.regions), (0, 0));
            assert!(!files.iter().any(|(_, file)| has_mapped(file)));
        }
    }
}
