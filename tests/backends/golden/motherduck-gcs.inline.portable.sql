LOAD ducklake;
LOAD motherduck;
LOAD httpfs;
ATTACH 'md:';
CREATE OR REPLACE SECRET "my_bucket" IN MOTHERDUCK (TYPE gcs, KEY_ID 'AKIA0', SECRET getenv('BUCKET_SECRET'), SCOPE 'gs://acme/');
CREATE DATABASE IF NOT EXISTS "shop_lake" (TYPE DUCKLAKE, DATA_PATH 'gs://acme/shop/');
USE "shop_lake";
