"""Who comes from another program finds each of its names, beside a line that was run."""

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

# Names with the arguments that they take, each as it stands in the documents of its program.
TRACK = """
TrackClient(backend)
TrackClient.add_tags(kwargs) TrackClient.get_arguments(args,show,kwargs) TrackClient.get_device
TrackClient.log_arguments(args,show,kwargs) TrackClient.new_trial(force,kwargs,arguments)
TrackClient.report(short) TrackClient.save(file_name_override)
TrackClient.set_group(group,force,get_only,kwargs)
TrackClient.set_project(project,force,get_only,kwargs)
TrackClient.set_trial(trial,force,uid,hash,revision,kwargs)
TrackClient.set_version(version,version_fun) TrackClient.finish TrackClient.start
TrackClient.log_metrics TrackClient.log_metadata default_version_hash
TrialLogger(trial,protocol) TrialLogger.capture_output(output_size)
TrialLogger.chrono(name,aggregator,start_callback,end_callback)
TrialLogger.finish(exc_type,exc_val,exc_tb) TrialLogger.log_arguments(kwargs)
TrialLogger.log_metadata(aggregator,kwargs) TrialLogger.log_metrics(step,aggregator,kwargs)
TrialLogger.set_status(status,error) TrialLogger.start TrialLogger.add_tags TrialLogger.log_code
TrialLogger.log_directory TrialLogger.log_file TrialLogger.set_eta_total TrialLogger.show_eta
LogSignalHandler(logger) LogSignalHandler.atexit LogSignalHandler.sigint LogSignalHandler.sigterm
SignalHandler LoggerChronoContext(protocol,trial,acc,name,kwargs)
Project(_uid,name,description,metadata,groups,trials) Project.uid Project.name Project.tags
Project.description Project.metadata Project.groups Project.trials Project.compute_uid
TrialGroup(_uid,name,description,metadata,trials,project_id) TrialGroup.uid TrialGroup.name
TrialGroup.description TrialGroup.metadata TrialGroup.trials TrialGroup.project_id
TrialGroup.compute_uid
Trial Trial.uid Trial.hash Trial.revision Trial.name Trial.description Trial.tags Trial.version
Trial.group_id Trial.project_id Trial.parameters Trial.metadata Trial.metrics Trial.chronos
Trial.status Trial.errors Trial.compute_hash
CustomStatus(name,value) CustomStatus.name CustomStatus.value
Status.CreatedGroup Status.RunningGroup Status.Running Status.ErrorGroup Status.Interrupted
Status.Exception Status.Broken Status.FinishedGroup Status.Suspended Status.Completed
Aggregator Aggregator.lazy Aggregator.append Aggregator.val Aggregator.to_json
RingAggregator(n,dtype) RingAggregator.lazy(n,dtype) ValueAggregator(val) ValueAggregator.lazy
TimeSeriesAggregator TimeSeriesAggregator.lazy StatAggregator(skip_obs) StatAggregator.lazy(skip)
StatAggregator.avg StatAggregator.max StatAggregator.min StatAggregator.sd StatAggregator.sum
StatAggregator.total StatAggregator.val StatAggregator.from_json
StatStream(drop_first_obs) StatStream.avg StatStream.count StatStream.current_count
StatStream.current_obs StatStream.drop_obs StatStream.first_obs StatStream.max StatStream.min
StatStream.sd StatStream.sum StatStream.sum_sqr StatStream.total StatStream.val StatStream.var
StatStream.from_dict StatStream.state_dict StatStream.to_array StatStream.to_dict
StatStream.to_json StatStream.update StatStreamStruct StatStreamStruct.current_count
StatStreamStruct.current_obs StatStreamStruct.drop_obs StatStreamStruct.first_obs
StatStreamStruct.max StatStreamStruct.min StatStreamStruct.sum StatStreamStruct.sum_sqr
EstimatedTime(stat_timer,total,start,name) EstimatedTime.total EstimatedTime.count(item,offset)
EstimatedTime.elapsed(unit) EstimatedTime.estimated_time(step,unit) EstimatedTime.set_totals(t)
EstimatedTime.show_eta(step,msg,show)
ThrottleRepeatedCalls(fun,every) Throttler(fun,throttle) TimeThrottler(fun,every)
Protocol Protocol.add_group_trial(group,trial) Protocol.add_project_trial(project,trial)
Protocol.add_trial_tags(trial,kwargs) Protocol.commit(file_name_override)
Protocol.fetch_and_update_group(query,attr,args,kwargs)
Protocol.fetch_and_update_trial(query,attr,args,kwargs) Protocol.fetch_groups(query)
Protocol.fetch_projects(query) Protocol.fetch_trials(query) Protocol.get_project(project)
Protocol.get_trial(trial) Protocol.get_trial_group(group)
Protocol.log_trial_arguments(trial,kwargs)
Protocol.log_trial_chrono_finish(trial,name,exc_type,exc_val,exc_tb)
Protocol.log_trial_chrono_start(trial,name,aggregator,start_callback,end_callback)
Protocol.log_trial_finish(trial,exc_type,exc_val,exc_tb)
Protocol.log_trial_metadata(trial,aggregator,kwargs)
Protocol.log_trial_metrics(trial,step,aggregator,kwargs) Protocol.log_trial_start(trial)
Protocol.new_project(project) Protocol.new_trial(trial,auto_increment)
Protocol.new_trial_group(group) Protocol.set_group_metadata
Protocol.set_trial_status(trial,status,error)
FileProtocol(uri,strict,eager) LockFileRemover(filename) LockFileRemover.atexit
LockFileRemover.remove LockFileRemover.sigint LockFileRemover.sigterm execute_query(obj,query)
lock_atomic_write(fun) lock_guard(readonly,atomic) lock_read(fun) lock_write(fun)
ProtocolMultiplexer(backends) register(name,protocol)
ServerSignalHandler(server) SocketClient(uri) SocketClient.authenticate(uri) SocketServer(uri)
SocketServer.authenticate(reader,username,password) SocketServer.process_args(args,cache)
SocketServer.run_server SocketServer.close SocketServer.close_connection SocketServer.exec
SocketServer.get_username SocketServer.handle_client SocketServer.is_authenticated
SocketServer.wait_closed start_track_server(protocol,hostname,port,security_layer)
EncryptedSocket EncryptedSocket.accept EncryptedSocket.recv(buffersize,flags,context)
LocalStorage LocalStorage.reload(filename) LocalStorage.smart_reload(filename)
LocalStorage.commit LocalStorage.get_current_version_tag LocalStorage.get_previous_version_tag
LocalStorage.group_names LocalStorage.groups LocalStorage.objects LocalStorage.project_names
LocalStorage.projects LocalStorage.target_file LocalStorage.trials
DelayedCall(fun,kwargs) DelayedCall.add_arguments DelayedCall.get_future
SerializerAspect SerializerChronoContext SerializerDatetime SerializerProject
SerializerStatStream SerializerStatus SerializerTrial SerializerTrialGroup SerializerUUID
SerializerTrial.ignore_meta SerializerTrial.ignore_short SerializerTrial.to_json
SerializerTrial.from_json SerializerTrialGroup.maybe_unflatten
CockRoachDB(location,addrs,join,clean_on_exit) CockRoachDB.build CockRoachDB.client_flags
CockRoachDB.node_id CockRoachDB.sql CockRoachDB.status CockRoachDB.webui CockRoachDB.parse
CockRoachDB.start CockRoachDB.stop CockRoachDB.wait
"""
T9K = """
create_run(config_path,name,hparams,labels,description,auto_upload,folder,make_folder)
create_run(conflict_strategy) create_artifact(name,labels,description)
load_run(path,auto_upload,folder,make_folder,conflict_strategy) load_artifact(path)
login(ais_host,api_key,timeout) logout upload(path,folder,make_folder,conflict_strategy)
Run(metadata,hparams,metrics,platform,git) Run.name Run.labels Run.description Run.start_timestamp
Run.end_timestamp Run.status Run.alternative_name Run.associations Run.hparams Run.metrics
Run.platform Run.git Run.remote Run.local Run.finish(args,kwargs) Run.log(type,metrics,step,epoch)
Run.mark_input(resource) Run.mark_output(resource) Run.parse_from_dict(data) Run.to_dict
Run.upload(folder,make_folder,conflict_strategy)
Params(upload,init_hparams) Params.as_dict Params.items Params.keys Params.values
Params.parse(dist_tf_strategy,dist_torch_model,dist_hvd) Params.update(new_params,override)
Artifact(metadata,objects) Artifact.name Artifact.labels Artifact.description
Artifact.created_timestamp Artifact.alternative_name Artifact.objects Artifact.remote
Artifact.local Artifact.add_dir(dir_path,obj_path) Artifact.add_file(file_path,obj_path)
Artifact.add_reference(uri,obj_path) Artifact.parse_from_dict(data) Artifact.to_dict
Artifact.upload(folder,make_folder,conflict_strategy) EM_RUN_PARENT_DIR EM_ARTIFACT_PARENT_DIR
"""
WANDB_MLFLOW = """
WandbLogger(project,name,tags,notes,id,save_dir,log_model)
wandb.init(project,name,config,tags,notes,group,mode,resume,id) wandb.login wandb.config
wandb.log(data,step) wandb.summary wandb.define_metric wandb.Image wandb.Html wandb.Table
wandb.Histogram wandb.save wandb.Artifact wandb.log_artifact wandb.use_artifact wandb.watch
wandb.finish wandb.Api wandb.sweep wandb.agent wandb.alert
MLFlowLogger(experiment_name,run_name,tracking_uri,tags,run_id,log_model)
mlflow.set_tracking_uri mlflow.set_experiment mlflow.start_run(run_name,nested) mlflow.end_run
mlflow.active_run mlflow.log_param mlflow.log_params mlflow.log_metric(key,value,step)
mlflow.log_metrics mlflow.set_tag mlflow.set_tags mlflow.log_artifact mlflow.log_artifacts
mlflow.log_figure mlflow.log_image mlflow.log_text mlflow.log_dict mlflow.log_input
mlflow.register_model mlflow.search_runs mlflow.autolog
TensorBoardLogger(save_dir,name,version,log_graph,default_hp_metric) SummaryWriter(log_dir)
SummaryWriter.add_scalar SummaryWriter.add_scalars SummaryWriter.add_image SummaryWriter.add_figure
SummaryWriter.add_text SummaryWriter.add_histogram SummaryWriter.add_hparams SummaryWriter.flush
SummaryWriter.close
"""
NEPTUNE_LOGGER = """
NeptuneLogger(api_key,project,name,run,log_model_checkpoints,prefix,agg_key_funcs,agg_default_func)
NeptuneLogger(neptune_run_kwargs) NeptuneLogger.experiment NeptuneLogger.run NeptuneLogger.name
NeptuneLogger.version NeptuneLogger.save_dir NeptuneLogger.log_hyperparams(params)
NeptuneLogger.log_metrics(metrics,step) NeptuneLogger.log_model_summary(model,max_depth)
NeptuneLogger.after_save_checkpoint(checkpoint_callback) NeptuneLogger.finalize(status)
NeptuneLogger.log_metric(metric_name,metric_value,step) NeptuneLogger.log_text(log_name,text,step)
NeptuneLogger.log_image(log_name,image,step) NeptuneLogger.log_artifact(artifact,destination)
NeptuneLogger.set_property NeptuneLogger.append_tags NeptuneLogger.LOGGER_JOIN_CHAR
NeptuneLogger.PARAMETERS_KEY NeptuneLogger.ARTIFACTS_KEY
project_name offline_mode experiment_name experiment_id params properties upload_source_files
abort_callback logger upload_stdout upload_stderr send_hardware_metrics run_monitoring_thread
handle_uncaught_exceptions git_info hostname notebook_id notebook_path base_namespace
close_after_fit
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
    """Return code without what a formatter decides."""
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s+", "", code)).replace("'", '"')


@pytest.mark.parametrize("page", KNOWN)
def test_every_name_has_its_line(page):
    """The page names every name and argument, and says something of it."""
    named = names_in(code for left, right in rows_of(page) if right for code in CODE.findall(left))
    left_out = sorted(names_in(iter(KNOWN[page].split())) - named)
    assert not left_out, left_out


@pytest.mark.parametrize("page", KNOWN)
def test_every_line_of_code_is_run(page):
    """What the tables say to write stands in a program of the page, which is run."""
    run = plain("".join(RUN.findall((HOWTO / f"{page}.md").read_text("utf-8"))))
    lines = [code for _, right in rows_of(page) for code in CODE.findall(right)]
    code = [line for line in lines if STATEMENT.match(line)]
    assert code
    not_run = [line for line in code if plain(line) not in run]
    assert not not_run, not_run


def test_a_name_of_another_program_is_an_error_that_says_ours(tmp_path):
    """Methods, functions and arguments; what the message names is there."""
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


def test_a_run_that_is_read_tells_what_it_is_called_and_how_it_does(tmp_path):
    """Whatever name it was opened by; a process that records knows what it said itself."""
    run = seamark.init_run("p", name="given", root=tmp_path / "root", **QUIET)
    assert (run.name, run.state) == ("given", "running")
    run.set_state("failed", detail="broken")
    run.stop()
    read = seamark.init_run("p", with_id=run.id, mode="read-only", root=tmp_path / "root")
    assert (read.name, read.state) == ("given", "failed")
