//! A rank of a communicator, of whichever provider.

use std::ffi::c_int;
use std::sync::Arc;

use super::call::Call;
use super::error::CommunicationError;
use super::group;
use super::id::{self, Token};
use super::library::{self, Library, RawComm};
use super::own::{self, AddNorm, OwnRank, RankCall};
use super::sys::{ncclDataType_t, ncclResult_t, ncclUniqueId};
use crate::base::error::{Error, Result as OwnResult};
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// A rank of a communicator.
#[derive(Debug)]
pub struct Communicator(Provider);

#[derive(Debug)]
enum Provider {
    Own(Arc<OwnRank>),
    Library(Arc<LibraryComm>),
}

/// A rank of the library's.
struct LibraryComm {
    raw: RawComm,
    library: &'static Library,
    context: Arc<Context>,
}

// SAFETY: the library lets any thread use a communicator, one at a time, as its callers must see to in C as well.
unsafe impl Send for LibraryComm {}
// SAFETY: as above.
unsafe impl Sync for LibraryComm {}

impl std::fmt::Debug for LibraryComm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LibraryComm({:p} of {})", self.raw, self.library.path)
    }
}

impl Drop for LibraryComm {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        // SAFETY: the communicator is the library's, and nobody uses it any more. cudarc ends communicators so, too.
        let status = unsafe { (self.library.abort)(self.raw) };
        let ended = self.library.check("ncclCommAbort", status);
        self.context
            .record_err(ended.map_err(|error| error.error().clone()));
    }
}

/// A new identifier, of whichever provider runs in this process.
///
/// # Errors
/// The library is asked for and does not load, or the system has no random numbers.
pub(super) fn new_id() -> Result<ncclUniqueId, CommunicationError> {
    let Some(library) = library::chosen()? else {
        return Ok(id::new()?);
    };
    let mut id = ncclUniqueId { internal: [0; 128] };
    // SAFETY: the place is writable.
    let status = unsafe { (library.unique_id)(&mut id) };
    library.check("ncclGetUniqueId", status)?;
    Ok(id)
}

/// A number of C.
fn number(of: usize) -> Result<c_int, CommunicationError> {
    c_int::try_from(of).map_err(|_| CommunicationError::invalid(format!("{of} ranks")))
}

impl Communicator {
    /// This rank of a communicator, on the context's GPU. Waits until all ranks have come; in a group, until its end.
    ///
    /// # Errors
    /// There is no such rank, it comes twice, or another does not come in time; two ranks have one GPU; or, on the host or the
    /// GPU, there is no memory.
    pub fn from_rank(
        context: &Arc<Context>,
        rank: usize,
        world: usize,
        id: &ncclUniqueId,
    ) -> Result<Self, CommunicationError> {
        context.bind_to_thread()?;
        if let Some(token) = id::token(id) {
            let rank = OwnRank::open(context, rank, world, token)?;
            if !group::defer_join(&rank) {
                own::join(std::slice::from_ref(&rank))?;
            }
            return Ok(Self(Provider::Own(rank)));
        }
        let library = library::library().map_err(|error| {
            error.context("the identifier is of RCCL or NCCL, which this process cannot load")
        })?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the place is writable; the context's GPU is current.
        let status = unsafe { (library.init_rank)(&mut raw, number(world)?, *id, number(rank)?) };
        library.check("ncclCommInitRank", status)?;
        Ok(Self::of_library(library, raw, context))
    }

    fn of_library(library: &'static Library, raw: RawComm, context: &Arc<Context>) -> Self {
        Self(Provider::Library(Arc::new(LibraryComm {
            raw,
            library,
            context: context.clone(),
        })))
    }

    /// A rank on each of these GPUs, all of this thread.
    ///
    /// # Errors
    /// As [`Communicator::from_rank`].
    pub fn from_contexts(contexts: &[Arc<Context>]) -> Result<Vec<Self>, CommunicationError> {
        let Some(library) = library::chosen()? else {
            let ranks = own_ranks(contexts, id::new_token()?)?;
            own::join(&ranks)?;
            let ranks = ranks.into_iter();
            return Ok(ranks.map(|rank| Self(Provider::Own(rank))).collect());
        };
        let ordinals: Vec<c_int> = contexts.iter().map(|it| it.cu_device()).collect();
        let mut all = vec![std::ptr::null_mut(); contexts.len()];
        let count = number(contexts.len())?;
        // SAFETY: both lists have so many elements.
        let status = unsafe { (library.init_all)(all.as_mut_ptr(), count, ordinals.as_ptr()) };
        library.check("ncclCommInitAll", status)?;
        let all = all.into_iter().zip(contexts);
        Ok(all
            .map(|(raw, context)| Self::of_library(library, raw, context))
            .collect())
    }

    /// Gives a call to a stream, or, in a group, keeps it until the group's end.
    ///
    /// # Safety
    /// The stream is of the rank's GPU, and so is the call's memory, which is used in the stream's order, and alive until the
    /// work is given to the stream.
    ///
    /// # Errors
    /// The call makes no sense, a rank is gone, or HIP refuses.
    pub(super) unsafe fn call(
        &self,
        stream: &Arc<Stream>,
        call: Call,
    ) -> Result<ncclResult_t, CommunicationError> {
        let context = stream.context();
        context.bind_to_thread()?;
        self.live_with_graphs_of(stream);
        match &self.0 {
            Provider::Own(rank) => {
                let call = RankCall {
                    rank: rank.clone(),
                    stream: stream.clone(),
                    call,
                };
                // SAFETY: the caller's promise.
                unsafe { group::give(call) }?;
                Ok(ncclResult_t::ncclSuccess)
            }
            Provider::Library(comm) => {
                call.check(self.rank()?, self.world()?)?;
                // SAFETY: the caller's promise; the stream's GPU is current.
                unsafe { comm.library.run(comm.raw, stream.raw(), &call) }
            }
        }
    }

    /// Whether [`Communicator::add_norm`] is there for such rows: at all ranks alike.
    ///
    /// # Errors
    /// The ranks have not come.
    pub(super) fn adds_rows(
        &self,
        rows: usize,
        columns: usize,
        dtype: ncclDataType_t,
    ) -> Result<bool, CommunicationError> {
        match &self.0 {
            Provider::Own(rank) => Ok(rank.adds_rows(rows, columns, dtype)?),
            Provider::Library(_) => Ok(false),
        }
    }

    /// Gives an all-reduce of rows, and what follows it, to a stream in one launch.
    ///
    /// # Safety
    /// As [`Communicator::call`].
    ///
    /// # Errors
    /// As [`Communicator::call`]; there is no such launch for these rows, or a group is open.
    pub(super) unsafe fn add_norm(
        &self,
        stream: &Arc<Stream>,
        rows: &AddNorm,
    ) -> Result<(), CommunicationError> {
        let Provider::Own(rank) = &self.0 else {
            return Err(CommunicationError::invalid(format!(
                "{} has no all-reduce of rows that are added",
                self.provider()
            )));
        };
        if group::is_open() {
            return Err(CommunicationError::invalid(
                "an all-reduce of rows in a group: each rank makes it in a thread of its own",
            ));
        }
        stream.context().bind_to_thread()?;
        self.live_with_graphs_of(stream);
        // SAFETY: the caller's promise.
        unsafe { rank.add_norm(stream, rows) }
    }

    /// A graph that a stream is captured for uses the rank as long as it lives. NCCL waits for the end of such graphs when a
    /// communicator ends, and would wait for ever for one that ends later.
    fn live_with_graphs_of(&self, stream: &Stream) {
        let Some(pool) = stream.context().device().existing_pool() else {
            return;
        };
        match &self.0 {
            Provider::Own(rank) => pool.keep(stream.key(), rank.clone()),
            Provider::Library(comm) => pool.keep(stream.key(), comm.clone()),
        }
    }

    /// Ends the rank once its GPU has done what it was given. Dropped, a rank of the library's gives up what it does. One that
    /// a captured graph uses ends with that.
    ///
    /// # Errors
    /// The library's.
    pub(super) fn destroy(self) -> Result<(), CommunicationError> {
        let Provider::Library(comm) = self.0 else {
            return Ok(());
        };
        let Some(mut comm) = Arc::into_inner(comm) else {
            return Ok(());
        };
        // SAFETY: the communicator is the library's, and nobody uses it any more.
        let status = unsafe { (comm.library.destroy)(comm.raw) };
        comm.raw = std::ptr::null_mut();
        comm.library.check("ncclCommDestroy", status).map(drop)
    }

    fn ask(
        &self,
        own: impl FnOnce(&OwnRank) -> usize,
        library: impl FnOnce(&Library) -> unsafe extern "C" fn(RawComm, *mut c_int) -> c_int,
    ) -> Result<usize, CommunicationError> {
        match &self.0 {
            Provider::Own(rank) => Ok(own(rank)),
            Provider::Library(comm) => {
                let mut answer = 0;
                // SAFETY: the communicator is alive; the place is writable.
                let status = unsafe { library(comm.library)(comm.raw, &mut answer) };
                comm.library.check("asking of a communicator", status)?;
                Ok(answer as usize)
            }
        }
    }

    /// This rank's number.
    ///
    /// # Errors
    /// The library's.
    pub fn rank(&self) -> Result<usize, CommunicationError> {
        self.ask(OwnRank::rank, |library| library.rank)
    }

    /// How many ranks there are.
    ///
    /// # Errors
    /// The library's.
    pub fn world(&self) -> Result<usize, CommunicationError> {
        self.ask(OwnRank::world, |library| library.count)
    }

    /// The number of its GPU.
    ///
    /// # Errors
    /// The library's.
    pub fn ordinal(&self) -> Result<usize, CommunicationError> {
        self.ask(|rank| rank.context().ordinal(), |library| library.device)
    }

    /// Whose collectives it runs: ours, or the library's of this path.
    pub fn provider(&self) -> &str {
        match &self.0 {
            Provider::Own(rank) => rank.way(),
            Provider::Library(comm) => &comm.library.path,
        }
    }
}

fn own_ranks(contexts: &[Arc<Context>], token: Token) -> OwnResult<Vec<Arc<OwnRank>>> {
    if contexts.is_empty() {
        return Err(Error::invalid("a communicator of no GPU"));
    }
    let all = contexts.iter().enumerate();
    all.map(|(rank, context)| OwnRank::open(context, rank, contexts.len(), token))
        .collect()
}
