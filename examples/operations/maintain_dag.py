"""Airflow: each night at 3:15. One run at a time; a failed table fails the task."""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "lakeconf_maintain",
    schedule="15 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
):
    BashOperator(
        task_id="maintain",
        bash_command="lakeconf maintain --store prod --yes",
        cwd="/srv/lake",
        retries=2,
        retry_delay=timedelta(minutes=10),
    )
