"""The pages for users of other programs have each of their names, beside a line that was run."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path

import pytest
from recording import QUIET

import seamark
from seamark.options import run_options

HOWTO = Path(__file__).parents[1] / "docs" / "howto"
RUN = re.compile(r"^```(?:python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"([A-Za-z_][\w.]*)(?:\((.*)\))?\Z", re.DOTALL)
STATEMENT = re.compile(r"(?!seamark\.[\w.]+\Z)[a-z_]+(\.[a-z]|\[)(?!.*…)")
"""A call or an assignment, without a gap; no argument alone, and no command."""

# Names with the arguments that they take, as in the documents of each program: functions, and then
# each class (with a colon; or a module or an enumeration, with a point) and its members.
TRACK = """
default_version_hash SignalHandler LoggerChronoContext(protocol,trial,acc,name,kwargs)
ThrottleRepeatedCalls(fun,every) Throttler(fun,throttle) TimeThrottler(fun,every)
FileProtocol(uri,strict,eager) execute_query(obj,query) lock_atomic_write(fun)
lock_guard(readonly,atomic) lock_read(fun) lock_write(fun) ProtocolMultiplexer(backends)
register(name,protocol) ServerSignalHandler(server)
start_track_server(protocol,hostname,port,security_layer) SerializerAspect SerializerChronoContext
SerializerDatetime SerializerProject SerializerStatStream SerializerStatus SerializerUUID
TrackClient(backend): add_tags(kwargs) get_arguments(args,show,kwargs) get_device
log_arguments(args,show,kwargs) new_trial(force,kwargs,arguments) report(short)
save(file_name_override) set_group(group,force,get_only,kwargs)
set_project(project,force,get_only,kwargs) set_trial(trial,force,uid,hash,revision,kwargs)
set_version(version,version_fun) finish start log_metrics log_metadata
TrialLogger(trial,protocol): capture_output(output_size)
chrono(name,aggregator,start_callback,end_callback) finish(exc_type,exc_val,exc_tb)
log_arguments(kwargs) log_metadata(aggregator,kwargs) log_metrics(step,aggregator,kwargs)
set_status(status,error) start add_tags log_code log_directory log_file set_eta_total show_eta
LogSignalHandler(logger): atexit sigint sigterm
Project(_uid,name,description,metadata,groups,trials): uid name tags description metadata groups
trials compute_uid TrialGroup(_uid,name,description,metadata,trials,project_id): uid name
description metadata trials project_id compute_uid Trial: uid hash revision name description tags
version group_id project_id parameters metadata metrics chronos status errors compute_hash
CustomStatus(name,value): name value Status. CreatedGroup RunningGroup Running ErrorGroup
Interrupted Exception Broken FinishedGroup Suspended Completed Aggregator: lazy append val to_json
RingAggregator(n,dtype): lazy(n,dtype) ValueAggregator(val): lazy TimeSeriesAggregator: lazy
StatAggregator(skip_obs): lazy(skip) avg max min sd sum total val from_json
StatStream(drop_first_obs): avg count current_count current_obs drop_obs first_obs max min sd sum
sum_sqr total val var from_dict state_dict to_array to_dict to_json update StatStreamStruct:
current_count current_obs drop_obs first_obs max min sum sum_sqr
EstimatedTime(stat_timer,total,start,name): total count(item,offset) elapsed(unit)
estimated_time(step,unit) set_totals(t) show_eta(step,msg,show) Protocol:
add_group_trial(group,trial) add_project_trial(project,trial) add_trial_tags(trial,kwargs)
commit(file_name_override) fetch_and_update_group(query,attr,args,kwargs)
fetch_and_update_trial(query,attr,args,kwargs) fetch_groups(query) fetch_projects(query)
fetch_trials(query) get_project(project) get_trial(trial) get_trial_group(group)
log_trial_arguments(trial,kwargs) log_trial_chrono_finish(trial,name,exc_type,exc_val,exc_tb)
log_trial_chrono_start(trial,name,aggregator,start_callback,end_callback)
log_trial_finish(trial,exc_type,exc_val,exc_tb) log_trial_metadata(trial,aggregator,kwargs)
log_trial_metrics(trial,step,aggregator,kwargs) log_trial_start(trial) new_project(project)
new_trial(trial,auto_increment) new_trial_group(group) set_group_metadata
set_trial_status(trial,status,error) LockFileRemover(filename): atexit remove sigint sigterm
SocketClient(uri): authenticate(uri) SocketServer(uri): authenticate(reader,username,password)
process_args(args,cache) run_server close close_connection exec get_username handle_client
is_authenticated wait_closed EncryptedSocket: accept recv(buffersize,flags,context) LocalStorage:
reload(filename) smart_reload(filename) commit get_current_version_tag get_previous_version_tag
group_names groups objects project_names projects target_file trials DelayedCall(fun,kwargs):
add_arguments get_future SerializerTrial: ignore_meta ignore_short to_json from_json
SerializerTrialGroup: maybe_unflatten CockRoachDB(location,addrs,join,clean_on_exit): build
client_flags node_id sql status webui parse start stop wait
"""
T9K = """
create_run(config_path,name,hparams,labels,description,auto_upload,folder,make_folder)
create_run(conflict_strategy) create_artifact(name,labels,description)
load_run(path,auto_upload,folder,make_folder,conflict_strategy) load_artifact(path)
login(ais_host,api_key,timeout) logout upload(path,folder,make_folder,conflict_strategy)
EM_RUN_PARENT_DIR EM_ARTIFACT_PARENT_DIR Run(metadata,hparams,metrics,platform,git): name labels
description start_timestamp end_timestamp status alternative_name associations hparams metrics
platform git remote local finish(args,kwargs) log(type,metrics,step,epoch) mark_input(resource)
mark_output(resource) parse_from_dict(data) to_dict upload(folder,make_folder,conflict_strategy)
Params(upload,init_hparams): as_dict items keys values
parse(dist_tf_strategy,dist_torch_model,dist_hvd) update(new_params,override)
Artifact(metadata,objects): name labels description created_timestamp alternative_name objects
remote local add_dir(dir_path,obj_path) add_file(file_path,obj_path) add_reference(uri,obj_path)
parse_from_dict(data) to_dict upload(folder,make_folder,conflict_strategy)
"""
WANDB_MLFLOW = """
WandbLogger(project,name,tags,notes,id,save_dir,log_model)
MLFlowLogger(experiment_name,run_name,tracking_uri,tags,run_id,log_model)
TensorBoardLogger(save_dir,name,version,log_graph,default_hp_metric) wandb.
init(project,name,config,tags,notes,group,mode,resume,id) login config log(data,step) summary
define_metric Image Html Table Histogram save Artifact log_artifact use_artifact watch finish Api
sweep agent alert mlflow. set_tracking_uri set_experiment start_run(run_name,nested) end_run
active_run log_param log_params log_metric(key,value,step) log_metrics set_tag set_tags
log_artifact log_artifacts log_figure log_image log_text log_dict log_input register_model
search_runs autolog SummaryWriter(log_dir): add_scalar add_scalars add_image add_figure add_text
add_histogram add_hparams flush close
"""
NEPTUNE_LOGGER = """
project_name offline_mode experiment_name experiment_id params properties upload_source_files
abort_callback logger upload_stdout upload_stderr send_hardware_metrics run_monitoring_thread
handle_uncaught_exceptions git_info hostname notebook_id notebook_path base_namespace
close_after_fit
NeptuneLogger(api_key,project,name,run,log_model_checkpoints,prefix,agg_key_funcs,agg_default_func,neptune_run_kwargs):
experiment run name version save_dir log_hyperparams(params) log_metrics(metrics,step)
log_model_summary(model,max_depth) after_save_checkpoint(checkpoint_callback) finalize(status)
log_metric(metric_name,metric_value,step) log_text(log_name,text,step)
log_image(log_name,image,step) log_artifact(artifact,destination) set_property append_tags
LOGGER_JOIN_CHAR PARAMETERS_KEY ARTIFACTS_KEY
"""
KNOWN = {
    "from-track": TRACK,
    "from-t9k": T9K,
    "from-wandb-mlflow": WANDB_MLFLOW,
    "neptune-logger": NEPTUNE_LOGGER,
}


def rows_of(page):
    """Yield both cells of each row of a page's tables of counterparts."""
    for line in (HOWTO / f"{page}.md").read_text("utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if line.startswith("| ") and len(cells) == 4:
            yield cells[1].strip(), cells[2].strip()


def full_names(listing):
    """Yield the names in a list as above, members with that of their class."""
    owner = ""
    for word in listing.split():
        if word.endswith("."):
            owner = word
        elif word.endswith(":"):
            yield word.removesuffix(":")
            owner = word.partition("(")[0].removesuffix(":") + "."
        else:
            yield owner + word


def names_in(words):
    """Return names, and each argument as ``name:argument``."""
    found = set()
    for word in words:
        if (match := CALL.match(word)) is None:
            continue
        name, given = match[1], match[2]
        found.add(name)
        for each in filter(None, (given or "").split(",")):
            found.add(f"{name}:{each.partition('=')[0].strip(' *…')}")
    return found


def plain(code):
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s+", "", code)).replace("'", '"')


@pytest.mark.parametrize("page", KNOWN)
def test_every_name_has_a_line_of_code_that_is_run(page):
    """The page names every name and argument; its tables have code of its programs, which run."""
    named = names_in(code for left, right in rows_of(page) if right for code in CODE.findall(left))
    assert sorted(names_in(full_names(KNOWN[page])) - named) == []
    run = plain("".join(RUN.findall((HOWTO / f"{page}.md").read_text("utf-8"))))
    lines = [code for _, right in rows_of(page) for code in CODE.findall(right)]
    code = [line for line in lines if STATEMENT.match(line)]
    assert code
    assert [line for line in code if plain(line) not in run] == []


def test_names_of_other_programs_are_errors_that_name_ours(tmp_path):
    """Methods, functions and arguments; the names in the messages exist."""
    run = seamark.init_run("p", name="given", root=tmp_path / "root", **QUIET)
    run.stop()
    for name, words in run_options.VERBS.items():
        with pytest.raises(AttributeError, match=re.escape(words)):
            getattr(run, name)
    for name, words in run_options.FUNCTIONS.items():
        with pytest.raises(AttributeError, match=re.escape(words)):
            getattr(seamark, name)
    verbs = [partial(seamark.init_run, "p", root=tmp_path), seamark.init_project]
    for name, ours in run_options.ARGUMENTS.items():
        known = [(verb, inspect.signature(verb).parameters) for verb in verbs]
        having = [verb for verb, names in known if ours in names and name not in names]
        assert having, ours
        for verb in having:
            with pytest.raises(TypeError, match=rf"{name!r}; did you mean {ours!r}\?"):
                verb(**{name: "x"})
    said = " ".join([*run_options.VERBS.values(), *run_options.FUNCTIONS.values()])
    for owner, name in re.findall(r"\b(seamark|run|project)\.(\w+)", said):
        home = {"seamark": seamark, "run": seamark.Run, "project": seamark.Project}[owner]
        assert hasattr(home, name), (owner, name)
