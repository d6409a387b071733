"""Names of runs: generated names, and resolution of name conflicts on arrival in a project.

A generated name is never recorded. The same id gives the same name on all machines and in all
releases, so the word lists below must never change.

A sender requests a name before it sends anything. The answer reserves the name at once, so that the
first of two senders gets it. A reservation lasts an hour; then only recorded runs count. An
artifact becomes a version of the one with its name if both share a version or the conflict is
``"new"``.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from seamark.errors import ArgumentError

LATEST: Final = "latest"
"""Keyword for the newest run; it takes precedence over names."""
_ADJECTIVES: Final = """
able active adept agile airy alert alpine amber ample ancient apt arctic ardent artful astral astute
atomic august autumn avid awake azure balanced balmy basic blithe blooming bold boreal bouncy brave
breezy bright brisk bronze bubbly buoyant busy calm candid capable careful caring casual celestial
central certain charming cheerful chief chilly chirpy civic civil classic clean clear clever coastal
cobalt cogent colorful comely compact complete concise constant cool copper coral cordial cosmic
cosy courtly crafty creative crimson crisp crystal curious curly custom cyan dapper daring dashing
dawning dazzling decent deep deft deluxe dewy digital diligent distant diverse docile dreamy driven
dusky dynamic eager early earnest earthen eastern ebullient elastic elated electric elegant elfin
eloquent emerald eminent endless epic equal essential eternal evening exact exotic expert fabled
fair faithful famous fancy fearless fern festive fiery fine firm first fleet floral flowing fluent
fluffy fond formal forthright fortunate fragrant frank free fresh friendly frosty fruitful full
funny future gallant gentle genuine gifted gilded glacial glad gleaming glossy glowing golden good
graceful gracious grand grassy grateful great green gritty groovy growing handy happy hardy harmonic
hasty hazel healthy hearty helpful heroic hidden honest honey hopeful humble humming icy ideal
idyllic immense indigo inland inner intent intrepid inventive ivory jade jaunty jazzy jolly jovial
joyful jubilant just keen kind kindly knowing large lasting lavender leafy leaping learned legible
level light likely lilac lime limpid lively lofty logical lone long loud loyal lucid lucky lunar
lush lyric magic magnetic main majestic marble marine maroon master mellow melodic merry mighty mild
mindful mint minute misty mobile modern modest morning mossy moving musical mystic natural nautical
neat new nifty nimble noble nocturnal northern notable novel open orange orderly organic outer ovate
pacific painted pastel patient peaceful pearly peppy perky placid plain playful pleasant plucky
poetic polar polished polite prime proper proud prudent pure purple quaint quick quiet quirky
radiant rainy rapid rare ready regal relaxed robust rosy round royal ruby runic rural russet rustic
sable safe sage sandy sapphire satin savvy scarlet scenic scholarly seasoned secret sensible serene
shady sharp shining shiny silent silken silver simple sincere skilled sleek sleepy slender smart
smiling smooth snowy snug sociable solar solid sonic sound southern sparkling speedy spirited
splendid spotless spry square stable starry stately steady stellar still stoic storied stout sturdy
subtle sunlit sunny super supple sure swift sylvan tactful tall tame tasty tawny tender thankful
thrifty tidal tidy timely tiny topaz tranquil true trusty twilight unique upbeat urban useful
valiant valid vast velvet verdant vernal versed vibrant violet vital vivid vocal wandering warm
watchful wavy western whole wide willing windy winged winter wise witty wonderful woodland worthy
zany zealous zesty
"""
_NOUNS: Final = """
acacia acorn agate albatross alder almond alpaca anchor anemone antelope apple apricot arbor arch
armadillo arrow aspen aster atlas atoll aurora avocado badger bagel balloon bamboo banjo barley barn
basil basin basket bay beacon beech beetle bell berry bicycle birch bison blossom bluebell boat
bonsai book boulder bramble breeze bridge brook buffalo bunting butterfly cabin cactus camel canoe
canyon cape capybara caraway cardinal caribou carp carrot cascade castle catfish cavern cedar cello
chamois cheetah cherry chestnut chickadee chinchilla chipmunk cicada cinnamon citrus clam clarinet
cliff clock cloud clover coast cockatiel coconut comet compass condor cormorant corn cosmos cottage
cove coyote crab cranberry crane crater creek crescent cricket crocus curlew current cypress
daffodil dahlia daisy dale dandelion deer delta desert dingo dolphin donkey dormouse dove dragonfly
drum duck dune eagle echo egret eland elk elm ember ermine estuary falcon fennel ferret ferry field
fig finch fir firefly fjord flamingo flute foal forest fountain fox foxglove frigate frog galaxy
gannet garden garnet gazelle gecko geyser ginger giraffe glacier glade gnu goldfinch goose gopher
gorge grape grebe grouse grove guitar gull hamster harbor hare harp harrier harvest hawk hawthorn
hazelnut heath heather hedgehog heron hibiscus hickory hill hippo holly horizon hornbill horse
hyacinth ibex ibis iguana impala inlet iris island ivy jackdaw jaguar jasmine jay jellyfish jerboa
juniper kayak kestrel kettle keyboard kingfisher kite kiwi koala kodiak kookaburra lagoon lake
lantern larch lark laurel leaf lemming lemon lemur leopard lichen lighthouse lily limpet linden
linnet lion lizard llama lobster locket loon lotus lynx macaw mackerel magnet magnolia magpie
mallard manatee mango mangrove maple marigold marlin marmot marsh marten meadow meerkat melon merlin
mesa meteor mill minnow mole mongoose monsoon moon moose moraine moth mountain mulberry mustang
narwhal nebula nectar newt nightingale nutmeg oak oasis oat ocean ocelot octopus okapi olive onyx
opal orbit orca orchard orchid oriole osprey ostrich otter owl oyster paddle palm panda panther
papaya parrot parsley partridge path pear pearl pebble pelican penguin peony pepper perch petal
petrel petunia pheasant piano pier pine pineapple plateau plover plum pocket poet pond pony poplar
poppy porpoise prairie primrose puffin pumpkin quail quartz quetzal quince quokka rabbit raccoon
rainbow raven ravine reed reef reindeer ridge river robin rocket rook rose rosemary rowan saddle
saffron sailboat salmon sandpiper sapling sardine savanna sea seahorse seal sequoia shell shore
shrimp siskin sketch skua sky sloth snail snow snowdrop sparrow spoonbill spring sprout spruce
squirrel star starfish starling steppe stoat stone stork stream summit sun sunflower swallow swan
sycamore tamarin tanager tapir teacup teal tern terrace thicket thistle thrush thyme tiger toucan
trail train tree trout tulip tundra turnip turtle valley vanilla viola violin volcano vole wagon
wallaby walnut walrus warbler water waterfall wave whale wheat willow wind wolf wombat woodpecker
wren yak yarrow yew zebra zephyr zinnia
"""


class RunName(NamedTuple):
    """Run and its names.

    Attributes:
        name: Text at ``sys/name``; None if there is none.
        created_ns: Creation time, nanoseconds since the Unix epoch; 0 if unknown.
        trashed: Whether the run is in the trash.
        sys_id: Second id of an imported run, such as ``KEY-12``; None if there is none.
    """

    project: str
    run: str
    name: str | None
    created_ns: int
    trashed: bool
    sys_id: str | None = None

    @property
    def ref(self) -> tuple[str, str]:
        """Project path and run id, which identify the run."""
        return self.project, self.run

    @property
    def shown(self) -> str:
        """Recorded name, else the generated one."""
        return self.name or generated_name(self.run)


def generated_name(run: str) -> str:
    """Return the name of an unnamed run, such as ``quick-otter``, from its id; it is not unique."""
    adjectives, nouns = _word_lists()
    digest = hashlib.sha256(run.encode("utf-8", "surrogatepass")).digest()
    at = int.from_bytes(digest[:8], "big") % (len(adjectives) * len(nouns))
    return f"{adjectives[at % len(adjectives)]}-{nouns[at // len(adjectives)]}"


@functools.cache
def _word_lists() -> tuple[list[str], list[str]]:
    return _ADJECTIVES.split(), _NOUNS.split()


Conflict = Literal["new", "skip", "error", "replace"]
"""Action for a run whose name another run of the project has."""
CONFLICTS: Final = get_args(Conflict)
_RESERVED_NS: Final = 3600 * 10**9
_MIN_INTERVAL_NS: Final = 1000
"""Minimum time between two runs of the same name, in nanoseconds, despite clock differences."""
_MAX_RESERVED_NAMES: Final = 10_000
_MAX_PER_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Arrival:
    """Outcome of the request to add a run to a project.

    Attributes:
        outcome: ``"go"``, ``"skip"``, ``"taken"`` or ``"no project"``.
        name: Name of the run in the project; None if it has none.
        others: Ids of the runs with the same name.
        t_ns: Time of the reservation, ns since the Unix epoch by the clock of the receiver, later
            than earlier reservations; None if nothing was reserved.
    """

    outcome: str
    name: str | None = None
    others: tuple[str, ...] = ()
    t_ns: int | None = None


def check_conflict(given: Any, what: str = "conflict") -> Conflict:
    """Return ``given`` if it is a `Conflict`; raise `ArgumentError` otherwise."""
    if given not in CONFLICTS:
        raise ArgumentError(
            f"{what}: expected one of {', '.join(map(repr, CONFLICTS))}, got {given!r:.80}"
        )
    return given  # type: ignore[no-any-return]


def settle(
    held: dict[str, Any],
    known: Iterable[RunName],
    run: str,
    name: str | None,
    conflict: Conflict,
    now_ns: int,
) -> Arrival:
    """Return the outcome for a run; reserve its name if it may be sent.

    A run that requests again has ended: of two runs that replace each other, the later end wins.
    ``held`` maps reserved names to (run id, time, whether it has ended); it is stored with the
    project, and expired reservations are removed. ``known`` are the runs of the project; ``now_ns``
    is nanoseconds since the Unix epoch.
    """
    seen: dict[str, list[str]] = {}
    shown: dict[str, str | None] = {}
    for one in known:
        if _is_shown(one) and one.run != run:
            seen.setdefault(one.name or "", []).append(one.run)
            shown[one.run] = one.name
    for key, entries in list(held.items()):
        coming = [one for one in _valid_entries(entries) if _is_held(one, key, shown, now_ns)]
        if coming and len(held) <= _MAX_RESERVED_NAMES:
            held[key] = coming
        else:
            del held[key]

    def competing_runs(called: str, *, ends: bool = False) -> tuple[str, ...]:
        coming = (one for one, _, at_end in held.get(called, ()) if at_end or not ends)
        found = dict.fromkeys((*seen.get(called, ()), *coming))
        return tuple(one for one in found if one != run)

    if name is None:
        return Arrival("go")
    again = any(one == run for one, *_ in held.get(name, ()))
    others = competing_runs(name, ends=again and conflict == "replace")
    if others and conflict in ("skip", "error"):
        return Arrival("skip" if conflict == "skip" else "taken", name, others)
    if others and conflict == "new":
        name, others = _free_name(name, held, run, competing_runs), ()
    again = again or any(one == run for one, *_ in held.get(name, ()))
    t_ns = max([now_ns, *(int(since) + _MIN_INTERVAL_NS for _, since, _ in held.get(name, ()))])
    behind = [one for one in held.get(name, ()) if one[0] != run]
    held[name] = [*behind[-_MAX_PER_NAME:], [run, t_ns, again]]
    return Arrival("go", name, others, t_ns)


def settle_artifact(
    held: dict[str, Any],
    known: Iterable[RunName],
    versions: Collection[str],
    place: str,
    conflict: Conflict,
    now_ns: int,
) -> Arrival:
    """Return the outcome for an artifact version, ``PROJECT/.artifacts/NAME``; see `settle`.

    ``versions`` are the digests of all versions at the sender, the one to send first; ``known`` are
    the versions of all artifacts of the project.
    """
    name, own = place.rpartition("/")[2], set(versions)
    there = [one._replace(name=name) for one in known if one.project == place and _is_shown(one)]
    if conflict == "new" or any(one.run in own for one in there):
        return Arrival("go", name)
    reserved = (
        one[0]
        for one in _valid_entries(held.get(name))
        if isinstance(one[0], str) and one[0] in own
    )
    coming = next(reserved, next(iter(versions)))
    return settle(held, there, coming, name, conflict, now_ns)


def _is_shown(one: RunName) -> bool:
    # A folder appears shortly before the journal that hides its run.
    return bool(one.created_ns) and not one.trashed


def _valid_entries(entries: Any) -> list[list[Any]]:
    # The file may have been edited.
    return (
        [one for one in entries if isinstance(one, list) and one]
        if isinstance(entries, list)
        else []
    )


def _is_held(entry: list[Any], name: str, shown: dict[str, str | None], now_ns: int) -> bool:
    try:
        run, since, _ = entry
        fresh = abs(now_ns - since) < _RESERVED_NS  # the time may come from another machine's clock
    except (TypeError, ValueError):
        return False
    return fresh and isinstance(run, str) and shown.get(run, name) == name


def _free_name(name: str, held: dict[str, Any], run: str, rivals: Any) -> str:
    mine = re.compile(re.escape(name) + r"-[1-9]\d*")
    for one, entries in held.items():
        if any(each[0] == run for each in entries) and mine.fullmatch(one) and not rivals(one):
            return one
    number = 2
    while rivals(f"{name}-{number}"):
        number += 1
    return f"{name}-{number}"
